import { livePlugin } from './live';
import { panelPlugin } from './commands';
import { statusPlugin } from './status';
import { stillPlugin } from './still';

export default [livePlugin, panelPlugin, statusPlugin, stillPlugin];
