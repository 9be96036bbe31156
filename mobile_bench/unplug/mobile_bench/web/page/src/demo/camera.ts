// The camera: on by a press, off by another or by leaving.

export class Camera {
  private stream: MediaStream | null = null;

  constructor(
    private readonly video: HTMLVideoElement,
    private readonly frame: () => Promise<void>,
  ) {}

  /** Why there is none, or null. */
  static missing(): string | null {
    if (!globalThis.isSecureContext) return "The camera needs https or localhost.";
    return navigator.mediaDevices?.getUserMedia === undefined ? "This browser offers no camera." : null;
  }

  get on(): boolean {
    return this.stream !== null;
  }

  async start(): Promise<void> {
    this.stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "user", width: { ideal: 640 } }, audio: false });
    this.video.srcObject = this.stream;
    await this.video.play();
    void this.loop(this.stream);
  }

  /** One frame after the other, each when the one before it is done. */
  private async loop(own: MediaStream): Promise<void> {
    while (this.stream === own) {
      await this.frame();
      await new Promise((resolve) => setTimeout(resolve, 150));
    }
  }

  stop(): void {
    for (const track of this.stream?.getTracks() ?? []) track.stop();
    this.stream = null;
    this.video.srcObject = null;
  }
}
