// Tabs, as the ARIA practices have them: arrows move, the page shows one. The bar is there once there are two.
import { byId } from "./dom";

export type TabName = "draw" | "bench" | "demo";

export interface Tabs {
  /** Makes a tab available. */
  offer(name: TabName): void;
  /** Takes all other tabs away, and shows this one. */
  only(name: TabName): void;
  select(name: TabName): void;
  onLeave(name: TabName, action: () => void): void;
  onEnter(name: TabName, action: () => void): void;
}

export function tabs(): Tabs {
  const buttons = [...byId("tabs").querySelectorAll("button")];
  const leaving = new Map<string, (() => void)[]>();
  const entering = new Map<string, (() => void)[]>();
  const panelOf = (button: HTMLButtonElement): string => button.getAttribute("aria-controls") ?? "";
  const select = (chosen: HTMLButtonElement): void => {
    const before = buttons.find((button) => button.getAttribute("aria-selected") === "true");
    for (const button of buttons) {
      const own = button === chosen;
      button.setAttribute("aria-selected", String(own));
      button.tabIndex = own ? 0 : -1;
      byId(panelOf(button)).hidden = !own;
    }
    if (before === chosen) return;
    for (const action of leaving.get(before === undefined ? "" : panelOf(before)) ?? []) action();
    for (const action of entering.get(panelOf(chosen)) ?? []) action();
  };
  for (const button of buttons) {
    button.addEventListener("click", () => select(button));
    button.addEventListener("keydown", (event) => {
      const way = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
      const seen = buttons.filter((item) => !item.hidden);
      const other = seen[(seen.indexOf(button) + way + seen.length) % seen.length];
      if (way === 0 || other === undefined || other === button) return;
      select(other);
      other.focus();
    });
  }
  const hear = (map: Map<string, (() => void)[]>) => (name: TabName, action: () => void): void => void map.set(name, [...(map.get(name) ?? []), action]);
  return {
    offer: (name) => {
      byId(`tab-${name}`).hidden = false;
      byId("tabs").hidden = buttons.filter((button) => !button.hidden).length < 2;
    },
    only: (name) => {
      select(byId<HTMLButtonElement>(`tab-${name}`));
      for (const button of buttons) button.hidden = button.id !== `tab-${name}`;
      byId("tabs").hidden = true;
    },
    select: (name) => select(byId<HTMLButtonElement>(`tab-${name}`)),
    onLeave: hear(leaving),
    onEnter: hear(entering),
  };
}
