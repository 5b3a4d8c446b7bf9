/** The panel's icon: two tasks that send to a third, in the colours of the first devices; the same in every theme. */
import { LabIcon } from '@jupyterlab/ui-components';

export const workbenchIcon = new LabIcon({
  name: 'workbench-lab:workbench',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <path fill="none" stroke="#7f7f7f" stroke-width="1.8" d="M7 9v2.2c0 1.6 5 1.8 5 3.6v.7M17 9v2.2c0 1.6-5 1.8-5 3.6v.7"/>
  <rect x="2" y="2.5" width="9" height="6.5" rx="1.8" fill="#0072b2"/>
  <rect x="13" y="2.5" width="9" height="6.5" rx="1.8" fill="#d55e00"/>
  <rect x="7.5" y="15" width="9" height="6.5" rx="1.8" fill="#009e73"/>
</svg>`
});
