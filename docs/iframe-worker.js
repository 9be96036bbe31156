// From the disk a browser starts no worker: there the search runs in a frame of its own.
// Copied, as between threads: the search changes what it is sent.
const told = (to, data) => setTimeout((copy) => to?.onmessage?.({ data: copy }), 0, structuredClone(data));
if (location.protocol === "file:") window.Worker = class {
  constructor(url) {
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    document.body.append(this.frame);
    const { contentWindow: inside, contentDocument: page } = this.frame;
    page.open();
    page.write("<body>");
    page.close();
    inside.postMessage = (data) => told(this, data);
    const script = page.createElement("script");
    this.ready = new Promise((loaded) => { script.onload = loaded; });
    script.src = url;
    page.body.append(script);
  }
  postMessage(data) { this.ready.then(() => told(this.frame.contentWindow, data)); }
  terminate() { this.frame.remove(); }
};
