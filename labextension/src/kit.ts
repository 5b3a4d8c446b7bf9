/** One plain module for whoever is no JupyterLab: a notebook's cell takes what it exports, a report shows what it holds. */
import '../style/theme.css';
import '../style/base.css';

import { cell } from './cell';
import { tell } from './report';

export default cell;

const records = document.getElementById('workbench-records');
if (records) {
  tell(records);
}
