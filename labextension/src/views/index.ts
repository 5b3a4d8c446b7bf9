/** The views, in the order in which they stand in the panel: the answer first, then the course of things, then what runs. */
import './work';
import './knobs';
import './steps';
import './series';
import './graph';
import './timeline';
import './operations';
