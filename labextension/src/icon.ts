/** The panel's icon: three operations and the tensors between them. */
import { LabIcon } from '@jupyterlab/ui-components';

export const workbenchIcon = new LabIcon({
  name: 'workbench-lab:workbench',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3" fill="#616161">
    <path d="M11.1 7h1.8v3.3l5 3.9-1.1 1.4-4.8-3.7-4.8 3.7-1.1-1.4 5-3.9z"/>
    <rect x="8" y="2.5" width="8" height="6" rx="1.6"/>
    <rect x="2" y="14.5" width="8" height="6" rx="1.6"/>
    <rect x="14" y="14.5" width="8" height="6" rx="1.6"/>
  </g>
</svg>`
});
