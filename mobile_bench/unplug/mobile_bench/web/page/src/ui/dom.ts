// Elements without a framework.

type Child = Node | string | null;
type Props = Record<string, string | number | boolean | null | ((event: Event) => void)>;

function fill<T extends Element>(element: T, props: Props, children: Child[]): T {
  for (const [name, value] of Object.entries(props)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null) element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

export function el<K extends keyof HTMLElementTagNameMap>(tag: K, props: Props = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), props, children);
}

export function svg<K extends keyof SVGElementTagNameMap>(tag: K, props: Props = {}, ...children: Child[]): SVGElementTagNameMap[K] {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no #${id}`);
  return found as T;
}

/** Milliseconds for people: three figures. */
export function ms(value: number | null): string {
  if (value === null) return "–";
  if (value >= 1000) return `${(value / 1000).toPrecision(3)}\u00a0s`;
  return `${value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)}\u00a0ms`;
}

export const bytes = (count: number): string => (count >= 2 ** 20 ? `${(count / 2 ** 20).toFixed(1)}\u00a0MB` : `${Math.ceil(count / 1024)}\u00a0kB`);

const DELEGATES: Record<string, string> = { wasm: "WebAssembly", webgpu: "WebGPU" };
const RUNTIMES: Record<string, string> = { "litert-web": "LiteRT.js", "onnx-web": "ONNX Runtime Web" };

export const delegateName = (name: string): string => DELEGATES[name] ?? name;
export const runtimeName = (name: string): string => RUNTIMES[name] ?? name;

export const message = (error: unknown): string => (error instanceof Error ? error.message : String(error));
