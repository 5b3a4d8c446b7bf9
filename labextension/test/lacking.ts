// What happy-dom lacks of a browser.

import { vi } from 'vitest';

/** `new Option(text, value)`, until `vi.unstubAllGlobals()`. */
export function stubOption(): void {
  vi.stubGlobal(
    'Option',
    class {
      constructor(textContent: string, value: string) {
        return Object.assign(document.createElement('option'), { textContent, value });
      }
    }
  );
}
