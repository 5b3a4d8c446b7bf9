"use strict";(self.rspackChunkworkbench_lab=self.rspackChunkworkbench_lab||[]).push([[232],{475(e,o,t){var r=t(601),a=t.n(r),i=t(314),n=(t.n(i))()(a());n.push([e.id,`/* The page of a kernel, in a panel, in a cell or in a report. Colours come from the theme; only device and line colours are data. */

.wb-Page {
  container: workbench / inline-size;
  display: flex;
  flex-direction: column;
  background: var(--jp-layout-color1);
  color: var(--jp-ui-font-color1);
  font: var(--jp-ui-font-size1) / 1.45 var(--jp-ui-font-family);
}

.wb-Page [hidden] {
  display: none !important;
}

.wb-Page :focus-visible,
.wb-Status :focus-visible {
  outline: 2px solid var(--jp-brand-color1);
  outline-offset: 1px;
}

.wb-Page button {
  height: 26px;
  padding: 0 10px;
  border: 1px solid var(--jp-border-color1);
  border-radius: 4px;
  background: var(--jp-layout-color1);
  color: var(--jp-ui-font-color1);
  font: inherit;
  cursor: pointer;
}

.wb-Page button:hover:enabled {
  background: var(--jp-layout-color2);
}

.wb-Page button:disabled {
  opacity: 0.45;
  cursor: default;
}

.wb-Page :is(select, input:not([type='range'])) {
  height: 24px;
  box-sizing: border-box;
  border: 1px solid var(--jp-border-color1);
  border-radius: 4px;
  background: var(--jp-layout-color1);
  color: var(--jp-ui-font-color1);
  font: inherit;
}

.wb-Panel {
  min-width: 220px;
  height: 100%;
  overflow: auto;
}

.wb-Cell {
  border: 1px solid var(--jp-border-color2);
  border-radius: 4px;
}

.wb-Cell .wb-Header {
  position: static;
}

/* heard, not seen */
.wb-Voice {
  position: absolute;
  overflow: hidden;
  width: 1px;
  height: 1px;
  clip-path: inset(50%);
  white-space: nowrap;
}

/* header */

.wb-Header {
  position: sticky;
  top: 0;
  z-index: 2;
  display: flex;
  flex-wrap: wrap;
  align-items: center;
  gap: 6px 10px;
  padding: 8px 12px;
  border-bottom: 1px solid var(--jp-border-color2);
  background: var(--jp-layout-color1);
}

.wb-Pill {
  display: inline-flex;
  align-items: center;
  gap: 7px;
  font-weight: 600;
}

.wb-Pill::before {
  width: 9px;
  height: 9px;
  border-radius: 50%;
  background: var(--jp-ui-font-color2);
  content: '';
}

.wb-Pill:is(
    [data-state='starting'],
    [data-state='building'],
    [data-state='rewriting'],
    [data-state='compiling'],
    [data-state='recovering']
  )::before {
  background: var(--jp-brand-color1);
}

.wb-Pill:is([data-state='running'], [data-state='finished'])::before {
  background: var(--jp-success-color1);
}

.wb-Pill[data-state='paused']::before {
  border-radius: 1px;
  background: var(--jp-warn-color1);
}

.wb-Pill[data-state='failed']::before {
  border-radius: 1px;
  background: var(--jp-error-color1);
  transform: rotate(45deg);
}

.wb-Facts {
  flex: 1 1 120px;
  min-width: 0;
  color: var(--jp-ui-font-color1);
  font-variant-numeric: tabular-nums;
  overflow-wrap: anywhere;
}

/* each fact is one piece, with the dot behind it */
.wb-Facts span {
  display: inline-block;
  white-space: pre-wrap;
}

@container workbench (min-width: 461px) {
  .wb-Facts {
    display: flex;
    flex-wrap: wrap;
  }

  /* a long name takes what the others leave: it makes no second line, and nothing below moves when there is a rate to tell */
  .wb-Facts .wb-Name {
    flex: 1 1 6em;
    overflow: hidden;
    text-overflow: ellipsis;
    white-space: pre;
  }
}

.wb-Tools {
  display: flex;
  align-items: center;
  gap: 6px;
}

.wb-Tools button:first-of-type {
  min-width: 74px;
}

.wb-Link {
  color: var(--jp-content-link-color, inherit);
  white-space: nowrap;
}

/* one place for what went wrong and for what is slow, as high as most sentences of both: what is below stays where it is */
.wb-News {
  flex: none;
  display: flex;
  flex-direction: column;
  border-bottom: 1px solid var(--jp-border-color2);
}

.wb-Page:not([data-state='empty']) .wb-News {
  min-height: calc(3lh + 12px); /* what a verdict takes at most, and what went wrong mostly: nothing below moves */
}

.wb-News:not(:has(> :not([hidden]))) {
  border: 0;
}

.wb-Trouble {
  flex: 1 0 auto;
  padding: 6px 12px;
  border-left: 4px solid var(--jp-warn-color1);
  background: var(--jp-layout-color2);
}

.wb-Trouble.wb-mod-bad {
  border-left-color: var(--jp-error-color1);
}

.wb-Trouble p {
  margin: 0;
  overflow-wrap: anywhere;
}

.wb-Verdict {
  flex: 1 0 auto;
  margin: 0;
  padding: 6px 12px;
}

.wb-Verdict.wb-mod-alarm {
  border-left: 4px solid var(--jp-warn-color1);
}

.wb-Verdict:not(.wb-mod-alarm) b {
  font-weight: 400;
}

/* part of the sentence: a box of its own would take a line */
.wb-Page :is(.wb-Verdict, .wb-Trouble) button {
  height: auto;
  padding: 0;
  border: 0;
  background: none;
  color: var(--jp-content-link-color, var(--jp-brand-color1));
  text-decoration: underline;
  white-space: nowrap;
}

/* beside a notebook the header gives what it says a line of its own: what a run is in can be long, and what is below must not
   move with a digit or a rate */
@container workbench (max-width: 760px) {
  .wb-Tools {
    margin-left: auto;
  }

  .wb-Facts {
    order: 1;
    flex-basis: 100%;
  }
}

/* two lines where they may need them, and buttons beside the longest word for a state: none has a line for some states alone */
@container workbench (max-width: 460px) {
  .wb-Facts {
    min-height: 2lh;
  }

  .wb-Header {
    column-gap: 4px;
  }

  .wb-Tools {
    gap: 4px;
  }

  .wb-Tools button:first-of-type {
    min-width: 66px;
  }
}

/* body: the graph beside the charts where there is room, above them where not */

.wb-Body {
  display: flex;
  flex: 1 0 auto;
  flex-direction: column;
}

.wb-Section {
  position: relative;
  padding: 10px 12px 12px;
  border-bottom: 1px solid var(--jp-border-color2);
}

.wb-Section-bar {
  display: flex;
  align-items: center;
  justify-content: space-between;
  gap: 8px;
  min-height: 26px;
  margin-bottom: 6px;
}

.wb-Section h3 {
  margin: 0;
  font-size: var(--jp-ui-font-size1);
  font-weight: 600;
}

.wb-Section-note {
  margin: 6px 0;
  color: var(--jp-ui-font-color2);
}

.wb-Section-tools {
  display: flex;
  align-items: center;
  gap: 4px;
  min-width: 0;
}

.wb-Together {
  display: inline-flex;
  align-items: center;
  gap: 4px;
}

.wb-Section-tools button,
.wb-Graph-zoom button {
  min-width: 26px;
  height: 24px;
  padding: 0 7px;
  border-color: transparent;
}

/* one column: the answer first, then the picture of what runs, then its course */
.wb-Side {
  display: contents;
}

.wb-Tabs {
  order: 1;
}

.wb-Steps,
.wb-Loss {
  order: 2;
}

@container workbench (min-width: 760px) {
  .wb-Body {
    flex: 1 1 0;
    flex-direction: row;
    min-height: 0;
  }

  .wb-Tabs {
    display: flex;
    flex: 1.1 1 0;
    flex-direction: column;
    order: 0;
    min-width: 0;
    overflow: auto;
    border-right: 1px solid var(--jp-border-color2);
  }

  .wb-Tabs > .wb-Section {
    display: flex;
    flex: 1 0 auto;
    flex-direction: column;
    border-bottom: 0;
  }

  .wb-Tabs .wb-Section-body {
    display: flex;
    flex: 1 1 0;
    flex-direction: column;
    min-height: 240px;
  }

  .wb-Page .wb-Graph-stage {
    flex: 1 1 0;
    height: auto;
    min-height: 0;
  }

  .wb-Cell .wb-Body {
    flex: none;
    height: 620px;
  }

  .wb-Side {
    display: block;
    flex: 1 1 0;
    min-width: 0;
    overflow: auto;
  }
}

.wb-Legend {
  display: flex;
  flex-wrap: wrap;
  gap: 4px 14px;
  margin: 8px 0 0;
  padding: 0;
  list-style: none;
}

.wb-Legend li {
  display: inline-flex;
  flex-wrap: wrap;
  align-items: center;
  gap: 0 6px;
  font-variant-numeric: tabular-nums;
}

.wb-Legend .wb-mod-lost {
  text-decoration: line-through;
}

.wb-Legend .wb-mod-failed {
  border: 2px solid var(--jp-error-color1);
  border-radius: 4px;
  padding: 0 4px;
  font-weight: 600;
  overflow-wrap: anywhere;
}

.wb-Legend b {
  font-weight: 600;
}

.wb-Steps .wb-Legend {
  display: grid;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 370px), 1fr));
}

.wb-Steps .wb-Legend b {
  min-width: 84px; /* numbers stand below each other, beside a marked name too */
}

.wb-Steps .wb-Legend-hint {
  grid-column: 1 / -1;
}

:is(.wb-Steps .wb-Legend .wb-mod-slow b, .wb-Bars .wb-mod-slow th)::before {
  color: var(--jp-error-color1);
  content: '▲ ';
}

.wb-Legend i,
.wb-Chart-tip i {
  flex: none;
  display: inline-block;
  width: 10px;
  height: 10px;
  border-radius: 2px;
}

.wb-Legend span,
.wb-Legend-hint {
  color: var(--jp-ui-font-color2);
}

.wb-Legend span {
  white-space: nowrap;
}

.wb-Chart-tip i {
  margin-right: 6px;
}

/* graph: a canvas with an overview in its corner, and beside it what is known of the chosen node */

.wb-Graph-stage {
  display: flex;
  height: clamp(240px, 46vh, 600px);
  border: 1px solid var(--jp-border-color2);
  border-radius: 4px;
  background: var(--jp-layout-color0);
}

.wb-Graph-view {
  position: relative;
  flex: 1 1 0;
  min-width: 0;
  color: var(--jp-ui-font-color0);
}

.wb-Graph-view canvas {
  display: block;
  width: 100%;
  height: 100%;
}

.wb-Graph-view > canvas:first-child {
  cursor: grab;
  touch-action: none;
}

.wb-Graph-view > canvas:first-child:active {
  cursor: grabbing;
}

.wb-Graph-view > canvas.wb-Graph-overview {
  position: absolute;
  right: 8px;
  bottom: 8px;
  width: min(130px, 30%);
  height: min(100px, 34%);
  border: 1px solid var(--jp-border-color1);
  border-radius: 4px;
  background: var(--jp-layout-color1);
  cursor: pointer;
}

.wb-Graph-overview.wb-mod-hidden {
  visibility: hidden;
}

.wb-Graph-zoom {
  position: absolute;
  bottom: 8px;
  left: 8px;
  border: 1px solid var(--jp-border-color2);
  border-radius: 4px;
  background: var(--jp-layout-color1);
}

.wb-Graph .wb-Section-bar,
.wb-Graph .wb-Section-tools {
  flex-wrap: wrap;
}

.wb-Graph-choice {
  flex: 1 1 80px;
  min-width: 0;
  max-width: 148px;
  overflow: hidden;
  text-overflow: ellipsis;
  white-space: nowrap;
}

/* whose words are few, and read */
.wb-Graph-choice.wb-mod-whole {
  flex: 0 0 auto;
}

.wb-Graph-state {
  min-width: 0;
  overflow: hidden;
  color: var(--jp-ui-font-color2);
  text-overflow: ellipsis;
  white-space: nowrap;
}

.wb-Graph-rewrite {
  display: flex;
  align-items: baseline;
  gap: 8px;
  margin-bottom: 4px;
}

.wb-Graph-trail {
  display: flex;
  flex-wrap: wrap;
  align-items: center;
  gap: 2px;
  margin-bottom: 4px;
  color: var(--jp-ui-font-color2);
}

.wb-Graph-trail button,
.wb-Pane li button {
  height: auto;
  padding: 1px 4px;
  border-color: transparent;
  overflow-wrap: anywhere;
  text-align: left;
}

.wb-Search {
  position: relative;
}

.wb-Search input {
  width: clamp(76px, 22cqw, 110px);
  padding: 0 7px;
}

.wb-Search ul {
  position: absolute;
  z-index: 3;
  top: 27px;
  left: 0;
  width: max-content;
  max-width: min(380px, 80cqw);
  max-height: 280px;
  margin: 0;
  padding: 4px;
  overflow: auto;
  border: 1px solid var(--jp-border-color1);
  border-radius: 4px;
  background: var(--jp-layout-color0);
  box-shadow: var(--jp-elevation-z4);
  list-style: none;
}

.wb-Search li {
  padding: 3px 6px;
  border-radius: 3px;
  cursor: pointer;
  overflow-wrap: anywhere;
}

.wb-Search li span {
  margin-left: 8px;
  color: var(--jp-ui-font-color2);
}

.wb-Search li:is(:hover, [aria-selected='true']):not(.wb-Search-more) {
  background: var(--jp-layout-color2);
}

.wb-Search .wb-Search-more {
  color: var(--jp-ui-font-color2);
  cursor: default;
}

.wb-Pane {
  flex: 0 0 min(250px, 46%);
  padding: 8px 10px;
  overflow: auto;
  border-left: 1px solid var(--jp-border-color2);
  background: var(--jp-layout-color1);
}

/* beside a narrow graph nothing would fit, and lists take the line that is left by the others */
@container workbench (max-width: 460px) {
  .wb-Graph .wb-Section-tools {
    width: 100%;
  }

  .wb-Graph-choice:not(.wb-mod-whole) {
    flex: 1 1 40%;
    max-width: none;
  }

  .wb-Page .wb-Graph-stage {
    flex-direction: column;
    height: auto;
  }

  .wb-Page .wb-Graph-view {
    flex: none;
    height: clamp(240px, 46vh, 600px);
  }

  .wb-Pane {
    flex: none;
    max-height: 260px;
    border-top: 1px solid var(--jp-border-color2);
    border-left: 0;
  }
}

.wb-Pane header {
  display: flex;
  align-items: start;
  justify-content: space-between;
  gap: 6px;
  overflow-wrap: anywhere;
}

.wb-Pane header button {
  height: 22px;
  padding: 0 6px;
  border-color: transparent;
}

.wb-Pane h4 {
  margin: 10px 0 2px;
  font-weight: 600;
}

.wb-Pane dl {
  display: grid;
  grid-template-columns: auto 1fr;
  gap: 3px 10px;
  margin: 6px 0 0;
}

.wb-Pane dt {
  font-weight: 400;
  color: var(--jp-ui-font-color2);
}

.wb-Pane dd {
  margin: 0;
  overflow-wrap: anywhere;
}

.wb-Pane ul {
  margin: 0;
  padding: 0;
  list-style: none;
}

.wb-Pane li span {
  display: block;
  padding-left: 5px;
  color: var(--jp-ui-font-color2);
}

/* what runs: a tab each for the graph and the timeline */

.wb-Tabs-bar {
  display: flex;
  flex-wrap: wrap;
  gap: 2px;
  padding: 6px 12px 0;
  border-bottom: 1px solid var(--jp-border-color2);
}

.wb-Page .wb-Tabs-bar button {
  height: 28px;
  margin-bottom: -1px;
  border-color: transparent;
  border-bottom: 2px solid transparent;
  border-radius: 0;
  background: none;
}

.wb-Page .wb-Tabs-bar button[aria-selected='true'] {
  border-bottom-color: var(--jp-brand-color1);
  font-weight: 600;
}

.wb-Tabs h3 {
  display: none;
}

.wb-Tabs .wb-Section-bar {
  justify-content: start;
}

.wb-Tabs .wb-Operations .wb-Section-bar {
  display: none; /* it has no tools, and its tab is its title */
}

.wb-Timeline-view {
  position: relative;
  height: clamp(160px, var(--wb-wanted, 240px), 46vh);
  border: 1px solid var(--jp-border-color2);
  border-radius: 4px;
  background: var(--jp-layout-color0);
}

.wb-Timeline-view canvas {
  display: block;
  width: 100%;
  height: 100%;
  cursor: crosshair;
  touch-action: none;
}

.wb-Timeline .wb-Section-tools {
  flex-wrap: wrap;
}

.wb-Timeline input {
  width: 74px;
  padding: 0 4px;
  font-variant-numeric: tabular-nums;
}

.wb-Timeline-words {
  color: var(--jp-ui-font-color2);
  font-variant-numeric: tabular-nums;
  white-space: nowrap;
}

.wb-Timeline :is(.wb-Timeline-sums, .wb-Timeline-path) {
  margin: 6px 0 0;
  font-variant-numeric: tabular-nums;
}

.wb-Timeline .wb-Timeline-path {
  margin-top: 2px;
  color: var(--jp-ui-font-color2);
}

.wb-Page .wb-mod-toggle {
  border-color: var(--jp-border-color1);
}

.wb-Page .wb-mod-toggle[aria-pressed='true'] {
  border-color: var(--jp-brand-color1);
  background: var(--jp-layout-color2);
}

/* charts */

.wb-Chart {
  position: relative;
  margin: 0;
}

.wb-Chart > canvas {
  display: block;
  width: 100%;
}

/* what uPlot needs to lay its parts over each other */
.uplot {
  width: min-content;
}

.uplot .u-wrap {
  position: relative;
}

.uplot :is(.u-over, .u-under, .u-axis, .u-cursor-x, .u-cursor-y, .u-cursor-pt) {
  position: absolute;
}

.uplot canvas {
  position: relative;
  display: block;
  width: 100%;
  height: 100%;
}

.uplot :is(.u-cursor-x, .u-cursor-y, .u-cursor-pt) {
  top: 0;
  left: 0;
  pointer-events: none;
  will-change: transform;
}

.uplot .u-cursor-x {
  height: 100%;
}

.uplot .u-cursor-pt {
  border: 0 solid;
  border-radius: 50%;
}

.uplot .u-off {
  display: none;
}

.wb-Chart .u-cursor-x {
  border-right: 1px solid var(--jp-ui-font-color2);
}

.wb-Chart b {
  display: block;
  font-weight: 600;
}

.wb-Loss-smooth {
  display: flex;
  align-items: center;
  gap: 6px;
  color: var(--jp-ui-font-color2);
}

.wb-Loss-smooth input {
  width: 90px;
  accent-color: var(--jp-brand-color1);
}

.wb-Chart-tip {
  position: absolute;
  z-index: 1;
  top: 8px;
  max-width: 70%;
  padding: 5px 8px;
  border: 1px solid var(--jp-border-color1);
  border-radius: 4px;
  background: var(--jp-layout-color0);
  color: var(--jp-ui-font-color0);
  font-variant-numeric: tabular-nums;
  pointer-events: none;
  white-space: nowrap;
}

.wb-Loss-cells {
  display: grid;
  grid-template-columns: repeat(auto-fit, minmax(min(220px, 100%), 1fr));
  gap: 10px 14px;
}

.wb-Loss-head {
  display: flex;
  align-items: baseline;
  gap: 8px;
  margin-bottom: 2px;
}

.wb-Loss-head b {
  flex: 1;
  font-weight: 400;
}

.wb-Page .wb-Loss-head button {
  height: 20px;
  padding: 0 6px;
  color: var(--jp-ui-font-color1);
}

.wb-Loss-head output {
  font-size: var(--jp-ui-font-size2);
  font-variant-numeric: tabular-nums;
  font-weight: 600;
}

/* the numbers of a chart; rows and heads stay in sight while the rest scrolls below them */

.wb-Numbers {
  margin-top: 8px;
}

.wb-Numbers-bar {
  display: flex;
  flex-wrap: wrap;
  align-items: center;
  gap: 4px 8px;
  margin-bottom: 4px;
}

.wb-Numbers-bar span {
  flex: 1;
  color: var(--jp-ui-font-color2);
}

.wb-Page .wb-Numbers-bar button {
  height: 24px;
}

.wb-Numbers-place {
  width: fit-content;
  max-width: 100%;
  max-height: 260px;
  box-sizing: border-box;
  overflow: auto;
  border: 1px solid var(--jp-border-color2);
  border-radius: 4px;
}

.wb-Page .wb-Numbers table {
  width: auto;
  border-collapse: separate;
  border-spacing: 0;
  font-variant-numeric: tabular-nums;
}

.wb-Page .wb-Numbers :is(th, td) {
  padding: 3px 10px;
  border-bottom: 1px solid var(--jp-border-color2);
  font-weight: 400;
  text-align: right;
  white-space: nowrap;
}

.wb-Numbers thead th {
  position: sticky;
  top: 0;
  z-index: 1;
  background: var(--jp-layout-color2);
}

.wb-Numbers tbody th {
  position: sticky;
  left: 0;
  background: var(--jp-layout-color1);
}

.wb-Page .wb-Numbers :is(th:first-child) {
  text-align: left;
}

.wb-Numbers thead th:first-child {
  left: 0;
  z-index: 2;
}

.wb-Numbers tbody tr:last-child > * {
  border-bottom: 0;
}

/* knobs */

.wb-Knobs fieldset {
  display: grid;
  align-items: start;
  grid-template-columns: repeat(auto-fill, minmax(min(220px, 100%), 1fr));
  gap: 4px 16px;
  margin: 0;
  padding: 0;
  border: 0;
}

.wb-Knobs fieldset + fieldset {
  margin-top: 8px;
}

.wb-Knobs legend {
  padding: 0;
  color: var(--jp-ui-font-color2);
}

.wb-Knob {
  display: flex;
  flex-wrap: wrap;
  align-items: center;
  gap: 0 8px;
}

.wb-Knob b {
  font-weight: 400;
}

.wb-Knob.wb-mod-lost b {
  font-weight: 700;
  text-decoration: line-through;
}

.wb-Knob-why {
  flex-basis: 100%;
  color: var(--jp-ui-font-color2);
}

.wb-Knob-name {
  display: inline-flex;
  align-items: center;
  gap: 6px;
  min-width: 72px;
  white-space: nowrap;
}

.wb-Knob-name i {
  width: 10px;
  height: 10px;
  border-radius: 2px;
}

.wb-Knob input {
  flex: 1;
  min-width: 60px;
  accent-color: var(--jp-brand-color1);
}

.wb-Knob output {
  min-width: 4ch;
  font-variant-numeric: tabular-nums;
  text-align: right;
}

.wb-Knob output.wb-mod-waits::after {
  content: ' …';
}

.wb-Knob-fault {
  grid-column: 1 / -1;
  margin: 2px 0 0;
  overflow-wrap: anywhere;
}

/* stragglers */

.wb-Stragglers .wb-Section-body {
  container: stragglers / inline-size;
  overflow-x: auto;
}

:is(.wb-Bars, .wb-Operations table) {
  width: 100%;
  border-collapse: collapse;
  font-variant-numeric: tabular-nums;
}

:is(.wb-Bars, .wb-Operations) :is(th, td) {
  padding: 4px 10px 4px 0;
  border-bottom: 1px solid var(--jp-border-color2);
  font-weight: 400;
  text-align: left;
}

.wb-Bars :is(th, td) {
  white-space: nowrap;
}

/* numbers end below each other */
.wb-Bars :is(th, td):is(:nth-child(3), :nth-child(5)),
.wb-Operations table:first-of-type :is(th, td):is(:nth-child(3), :nth-child(4), :nth-child(5)),
.wb-Operations table:last-of-type :is(th, td):is(:nth-child(2), :nth-child(3), :nth-child(4)) {
  text-align: right;
}

.wb-Bars :is(th, td):last-child {
  padding-right: 0;
}

.wb-Bars thead th {
  color: var(--jp-ui-font-color2);
}

.wb-Bars :is(th, td):nth-child(2) {
  width: 45%;
  min-width: 90px;
}

.wb-Bars .wb-mod-slow :is(th, td:nth-child(5)),
.wb-Bars .wb-mod-lost th {
  font-weight: 700;
}

.wb-Bars .wb-mod-lost th {
  text-decoration: line-through;
}

.wb-Page .wb-Stragglers-more {
  height: auto;
  min-height: 24px;
  margin-top: 6px;
}

.wb-Heat-rows {
  max-height: 340px;
  overflow-y: auto;
}

.wb-Parts {
  display: flex;
  height: 14px;
  overflow: hidden;
  border-radius: 2px;
  background: var(--jp-layout-color2);
}

.wb-Parts i {
  flex: none;
}

i[data-part='work'] {
  background: #2b7bba;
}

i[data-part='transfer'] {
  background: repeating-linear-gradient(90deg, #e08214 0 3px, color-mix(in srgb, #e08214 45%, var(--jp-layout-color0)) 3px 6px);
}

i[data-part='input'] {
  background:
    radial-gradient(circle, #8073ac 1.7px, transparent 2px) 0 0 / 6px 6px,
    color-mix(in srgb, #8073ac 45%, var(--jp-layout-color0));
}

/* 6 pixels across, a whole number: other distances beat with the pixels of the screen */
i[data-part='wait'] {
  background: repeating-linear-gradient(135deg, var(--jp-ui-font-color2) 0 1.2px, var(--jp-layout-color0) 1.2px 4.2426px);
}

i[data-part='system'] {
  background: repeating-linear-gradient(0deg, var(--jp-ui-font-color2) 0 1px, var(--jp-layout-color2) 1px 5px);
}

i[data-part='uncovered'] {
  background: var(--jp-layout-color3);
}

.wb-Legend i[data-part='path'] {
  height: 3px;
  background: var(--jp-ui-font-color0);
}

.wb-Legend i[data-part='message'] {
  width: 14px;
  height: 1px;
  background: var(--jp-ui-font-color0);
  transform: rotate(-25deg);
}

@container stragglers (max-width: 480px) {
  .wb-Bars tr {
    display: grid;
    grid-template-columns: auto 1fr 66px 56px;
    padding: 3px 0 6px;
    border-bottom: 1px solid var(--jp-border-color2);
  }

  /* the bar and whom a task waits for say themselves what they are */
  .wb-Bars thead th:is(:nth-child(2), :nth-child(4)) {
    position: absolute;
    overflow: hidden;
    width: 1px;
    height: 1px;
    clip-path: inset(50%);
  }

  .wb-Bars thead th:nth-child(3) {
    grid-column: 3;
  }

  .wb-Bars :is(th, td) {
    padding: 0 0 2px 8px;
    border: 0;
    text-align: right;
  }

  .wb-Bars :is(th:first-child, td:nth-child(2)) {
    padding-left: 0;
    text-align: left;
  }

  .wb-Bars tbody td:nth-child(2) {
    grid-row: 2;
    grid-column: 1 / -1;
    width: auto;
  }

  .wb-Bars tbody td:nth-child(4) {
    overflow: hidden;
    grid-row: 1;
    grid-column: 2;
    color: var(--jp-ui-font-color2);
    text-align: left;
    text-overflow: ellipsis;
  }

  .wb-Bars tbody td:nth-child(4):not(.wb-mod-none)::before {
    content: 'waits for ';
  }

  .wb-Bars tbody td:nth-child(4) span {
    display: none; /* the bar shows it */
  }

  .wb-Bars tbody td.wb-mod-none {
    visibility: hidden;
  }
}

/* operations and devices */

.wb-Operations .wb-Section-body {
  overflow-x: auto;
}

.wb-Operations p {
  margin: 0 0 8px;
}

.wb-Operations table {
  margin-bottom: 12px;
}

.wb-Operations :is(th, td) {
  vertical-align: top;
}

.wb-Operations th[scope='col'] {
  color: var(--jp-ui-font-color2);
  white-space: nowrap;
}

.wb-Operations th[scope='row'] {
  overflow-wrap: anywhere; /* rather than that a number is cut off */
}

.wb-Operations td {
  white-space: nowrap;
}

.wb-Operations table:last-of-type td:last-child {
  min-width: 120px;
  white-space: normal;
}

.wb-Device {
  white-space: nowrap;
}

.wb-Device.wb-mod-lost {
  font-weight: 700;
  text-decoration: line-through;
}

/* what is left of a widget without its kernel is as wide as its cell */
.jp-OutputArea-output.wb-Still {
  min-width: 0;
}

@container workbench (max-width: 600px) {
  .wb-Operations table:first-of-type :is(th, td):nth-child(5) {
    display: none;
  }
}

/* a narrow panel: what leads to the answer stays in sight */
@container workbench (max-width: 460px) {
  .wb-Operations table:first-of-type :is(th, td):is(:nth-child(3), :nth-child(5)),
  .wb-Operations table:last-of-type :is(th, td):nth-child(2),
  .wb-Page .wb-Share i {
    display: none;
  }

  .wb-Steps .wb-Legend b {
    min-width: 80px; /* its numbers stay beside it, below each other */
  }

  .wb-Steps .wb-Legend span {
    font-size: var(--jp-ui-font-size0);
  }

  .wb-Page .wb-Operations :is(th, td) {
    padding-right: 6px;
  }

  .wb-Page .wb-Operations :is(th, td):last-child {
    padding-right: 0;
  }

  .wb-Operations th[scope='col'] {
    white-space: normal;
  }

  .wb-Page .wb-Operations table:last-of-type td:last-child {
    min-width: 50px;
  }
}

.wb-Device i {
  display: inline-block;
  width: 10px;
  height: 10px;
  margin-right: 6px;
  border-radius: 3px;
}

.wb-Share i {
  display: inline-block;
  height: 8px;
  margin-right: 6px;
  border-radius: 2px;
  background: var(--jp-brand-color1);
}

/* nothing to show */

.wb-Empty {
  display: flex;
  flex: 1;
  flex-direction: column;
  align-items: center;
  justify-content: center;
  padding: 24px;
  text-align: center;
}

.wb-Empty-icon svg {
  width: 44px;
  height: 44px;
}

.wb-Empty h2 {
  margin: 10px 0 4px;
  font-size: var(--jp-ui-font-size2);
  font-weight: 600;
}

.wb-Empty p {
  max-width: 44ch;
  margin: 0 0 14px;
  color: var(--jp-ui-font-color1);
}

/* status bar */

.wb-Status button {
  padding: 0 6px;
  border: 0;
  background: none;
  color: inherit;
  font: inherit;
  line-height: inherit;
  cursor: pointer;
}

.wb-Status button:hover {
  background: var(--jp-layout-color3);
}

@media (forced-colors: active) {
  .wb-Pill::before,
  .wb-Page :is(.wb-Parts, i) {
    forced-color-adjust: none;
  }
}
`,""]),t.d(o,{},{A:n})},314(e){e.exports=function(e){var o=[];return o.toString=function(){return this.map(function(o){var t="",r=void 0!==o[5];return o[4]&&(t+="@supports (".concat(o[4],") {")),o[2]&&(t+="@media ".concat(o[2]," {")),r&&(t+="@layer".concat(o[5].length>0?" ".concat(o[5]):""," {")),t+=e(o),r&&(t+="}"),o[2]&&(t+="}"),o[4]&&(t+="}"),t}).join("")},o.i=function(e,t,r,a,i){"string"==typeof e&&(e=[[null,e,void 0]]);var n={};if(r)for(var l=0;l<this.length;l++){var p=this[l][0];null!=p&&(n[p]=!0)}for(var s=0;s<e.length;s++){var d=[].concat(e[s]);r&&n[d[0]]||(void 0!==i&&(void 0===d[5]||(d[1]="@layer".concat(d[5].length>0?" ".concat(d[5]):""," {").concat(d[1],"}")),d[5]=i),t&&(d[2]&&(d[1]="@media ".concat(d[2]," {").concat(d[1],"}")),d[2]=t),a&&(d[4]?(d[1]="@supports (".concat(d[4],") {").concat(d[1],"}"),d[4]=a):d[4]="".concat(a)),o.push(d))}},o}},601(e){e.exports=function(e){return e[1]}},72(e){var o=[];function t(e){for(var t=-1,r=0;r<o.length;r++)if(o[r].identifier===e){t=r;break}return t}function r(e,r){for(var a={},i=[],n=0;n<e.length;n++){var l=e[n],p=r.base?l[0]+r.base:l[0],s=a[p]||0,d="".concat(p," ").concat(s);a[p]=s+1;var b=t(d),w={css:l[1],media:l[2],sourceMap:l[3],supports:l[4],layer:l[5]};if(-1!==b)o[b].references++,o[b].updater(w);else{var c=function(e,o){var t=o.domAPI(o);return t.update(e),function(o){o?(o.css!==e.css||o.media!==e.media||o.sourceMap!==e.sourceMap||o.supports!==e.supports||o.layer!==e.layer)&&t.update(e=o):t.remove()}}(w,r);r.byIndex=n,o.splice(n,0,{identifier:d,updater:c,references:1})}i.push(d)}return i}e.exports=function(e,a){var i=r(e=e||[],a=a||{});return function(e){e=e||[];for(var n=0;n<i.length;n++){var l=t(i[n]);o[l].references--}for(var p=r(e,a),s=0;s<i.length;s++){var d=t(i[s]);0===o[d].references&&(o[d].updater(),o.splice(d,1))}i=p}}},659(e){var o={};e.exports=function(e,t){var r=function(e){if(void 0===o[e]){var t=document.querySelector(e);if(window.HTMLIFrameElement&&t instanceof window.HTMLIFrameElement)try{t=t.contentDocument.head}catch(e){t=null}o[e]=t}return o[e]}(e);if(!r)throw Error("Couldn't find a style target. This probably means that the value for the 'insert' parameter is invalid.");r.appendChild(t)}},540(e){e.exports=function(e){var o=document.createElement("style");return e.setAttributes(o,e.attributes),e.insert(o,e.options),o}},56(e,o,t){e.exports=function(e){var o=t.nc;o&&e.setAttribute("nonce",o)}},206(e){e.exports=function(e){if("u"<typeof document)return{update:function(){},remove:function(){}};var o=e.insertStyleElement(e);return{update:function(t){var r,a,i;r="",t.supports&&(r+="@supports (".concat(t.supports,") {")),t.media&&(r+="@media ".concat(t.media," {")),(a=void 0!==t.layer)&&(r+="@layer".concat(t.layer.length>0?" ".concat(t.layer):""," {")),r+=t.css,a&&(r+="}"),t.media&&(r+="}"),t.supports&&(r+="}"),(i=t.sourceMap)&&"u">typeof btoa&&(r+="\n/*# sourceMappingURL=data:application/json;base64,".concat(btoa(unescape(encodeURIComponent(JSON.stringify(i))))," */")),e.styleTagTransform(r,o,e.options)},remove:function(){var e;null===(e=o).parentNode||e.parentNode.removeChild(e)}}}},113(e){e.exports=function(e,o){if(o.styleSheet)o.styleSheet.cssText=e;else{for(;o.firstChild;)o.removeChild(o.firstChild);o.appendChild(document.createTextNode(e))}}},579(e,o,t){var r=t(72),a=t.n(r),i=t(206),n=t.n(i),l=t(659),p=t.n(l),s=t(56),d=t.n(s),b=t(540),w=t.n(b),c=t(113),h=t.n(c),u=t(475),x={};x.styleTagTransform=h(),x.setAttributes=d(),x.insert=p().bind(null,"head"),x.domAPI=n(),x.insertStyleElement=w(),a()(u.A,x),u.A&&u.A.locals&&u.A.locals}}]);