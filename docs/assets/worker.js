// A browser starts no worker for a page that was opened as a file. The search then runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #frame = document.createElement("iframe");
    #loaded;

    constructor(url) {
      super();
      this.#frame.hidden = true;
      document.body.append(this.#frame);
      const inside = this.#frame.contentWindow;
      inside.postMessage = (data) => setTimeout(() => this.#hear(structuredClone(data)));
      this.#loaded = new Promise((resolve, reject) => {
        const script = inside.document.createElement("script");
        script.addEventListener("load", resolve);
        script.addEventListener("error", reject);
        script.src = new URL(url, location.href).href;
        inside.document.body.append(script);
      });
      this.#loaded.catch((error) => this.onerror?.(error));
    }

    #hear(data) {
      const event = new MessageEvent("message", { data });
      this.onmessage?.(event);
      this.dispatchEvent(event);
    }

    postMessage(data) {
      const copy = structuredClone(data);
      this.#loaded.then(() => this.#frame.contentWindow.onmessage(new MessageEvent("message", { data: copy })));
    }

    terminate() {
      this.#frame.remove();
    }
  };
}
