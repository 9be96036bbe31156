// The model that the demo has open, in a worker of its own.
import { Client, runtimesBase } from "../client";
import type { Job, Tensors } from "../types";

export class OpenModel {
  private client: Client | null = null;
  private job: Job | null = null;

  /** Runs a job's model, opening it first where another was open. */
  async run(job: Job, inputs: Tensors): Promise<{ outputs: Tensors; latency_ms: number }> {
    if (this.job !== job || this.client === null) {
      this.close();
      const client = new Client(job.runtime, job.delegate);
      this.client = client;
      try {
        const setup = { base: runtimesBase(), delegate: job.delegate, threads: 1, iospec: job.iospec };
        await client.open(await job.model(), setup);
        // The first run compiles: its time would say nothing of the next.
        await client.run(inputs);
      } catch (error) {
        this.close();
        throw error;
      }
      this.job = job;
    }
    return this.client.run(inputs);
  }

  close(): void {
    this.client?.close();
    this.client = null;
    this.job = null;
  }
}
