// Where a bundle is dropped or chosen.
import { type Dropped, filesOfDrop, filesOfInput } from "../dropped";
import { el } from "./dom";

function picker(label: string, attributes: Record<string, string | boolean>, taken: (files: Promise<Dropped>) => void): HTMLElement {
  const input: HTMLInputElement = el("input", { type: "file", class: "quiet", ...attributes, change: () => chosen() });
  const chosen = (): void => {
    if (input.files !== null && input.files.length > 0) taken(filesOfInput(input.files));
    input.value = "";
  };
  return el("label", { class: "button plain" }, label, input);
}

const ANYTHING: [string, string] = [
  "Drop a bundle or a generator here",
  "The folder or zip file that “unplug release” wrote, a whole base from “unplug export”, or exported files with their cards. It stays on this device.",
];
/** What a page that checks signatures takes. */
export const SIGNED_ONLY: [string, string] = ["Drop a signed bundle here", "Its whole folder, or its zip file. It stays on this device."];

export function dropZone(taken: (files: Promise<Dropped>) => void, [title, what] = ANYTHING): HTMLElement {
  const zone = el(
    "div",
    { class: "drop" },
    el("h2", {}, title),
    el("p", { class: "soft" }, what),
    el(
      "div",
      { class: "buttons" },
      picker("Choose files", { multiple: true, id: "pick-files" }, taken),
      picker("Choose a folder", { webkitdirectory: true, id: "pick-folder" }, taken),
    ),
  );
  const over = (on: boolean) => (event: Event): void => {
    event.preventDefault();
    zone.classList.toggle("over", on);
  };
  zone.addEventListener("dragover", over(true));
  zone.addEventListener("dragleave", over(false));
  zone.addEventListener("drop", (event) => {
    over(false)(event);
    if (event.dataTransfer !== null) taken(filesOfDrop(event.dataTransfer));
  });
  return zone;
}
