// Two tabs, as the ARIA practices have them: arrows move, the page shows one.
import { byId } from "./dom";

export interface Tabs {
  /** Makes the second tab available. */
  offerDemo(): void;
  onLeaveDemo(action: () => void): void;
}

export function tabs(): Tabs {
  const buttons = [byId<HTMLButtonElement>("tab-bench"), byId<HTMLButtonElement>("tab-demo")];
  const leaving: (() => void)[] = [];
  const select = (chosen: HTMLButtonElement): void => {
    for (const button of buttons) {
      const own = button === chosen;
      button.setAttribute("aria-selected", String(own));
      button.tabIndex = own ? 0 : -1;
      byId(button.getAttribute("aria-controls") ?? "").hidden = !own;
    }
    if (chosen !== buttons[1]) for (const action of leaving) action();
  };
  for (const button of buttons) {
    button.addEventListener("click", () => select(button));
    button.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      const other = buttons.find((item) => item !== button && !item.hidden);
      if (other === undefined) return;
      select(other);
      other.focus();
    });
  }
  return {
    offerDemo: () => {
      buttons[1]!.hidden = false;
      byId("tabs").hidden = false;
    },
    onLeaveDemo: (action) => leaving.push(action),
  };
}
