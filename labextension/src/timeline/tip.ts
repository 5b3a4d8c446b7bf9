/** What a mark or an arrow of the timeline is, beside it. */

const TALL = 66; // pixels that it takes

export class Tip {
  readonly node = document.createElement('div');

  constructor() {
    this.node.className = 'wb-Chart-tip';
    this.node.hidden = true;
  }

  /** The first line is what it is called; below `y`, on the side of `x` where there is more room. Without lines nothing. */
  show(lines: string[], x: number, y: number, room: { width: number; height: number }): void {
    this.node.hidden = !lines.length;
    this.node.replaceChildren(
      ...lines.map((line, i) => Object.assign(document.createElement(i ? 'div' : 'b'), { textContent: line }))
    );
    const right = x > room.width / 2;
    this.node.style.left = right ? 'auto' : `${x + 14}px`;
    this.node.style.right = right ? `${room.width - x + 14}px` : 'auto';
    this.node.style.top = `${Math.max(0, Math.min(y + 6, room.height - TALL))}px`;
  }

  hide(): void {
    this.node.hidden = true;
  }
}
