import { livePlugin } from './live';
import { panelPlugin } from './commands';
import { statusPlugin } from './panels/status';

export default [livePlugin, panelPlugin, statusPlugin];
