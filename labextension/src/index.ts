import { livePlugin } from './live';
import { panelPlugin } from './commands';
import { statusPlugin } from './status';

export default [livePlugin, panelPlugin, statusPlugin];
