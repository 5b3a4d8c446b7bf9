"use strict";(self.rspackChunkworkbench_lab=self.rspackChunkworkbench_lab||[]).push([[232],{475(e,r,o){var t=o(601),a=o.n(t),i=o(314),n=(o.n(i))()(a());n.push([e.id,`/* The Workbench panel. Colours come from the theme; only device and line colours are data. */

.wb-Panel {
  container: workbench / inline-size;
  display: flex;
  flex-direction: column;
  min-width: 220px;
  height: 100%;
  overflow: auto;
  background: var(--jp-layout-color1);
  color: var(--jp-ui-font-color1);
  font: var(--jp-ui-font-size1) / 1.45 var(--jp-ui-font-family);
}

.wb-Panel [hidden] {
  display: none !important;
}

.wb-Panel :focus-visible,
.wb-Status :focus-visible {
  outline: 2px solid var(--jp-brand-color1);
  outline-offset: 1px;
}

.wb-Panel button {
  height: 26px;
  padding: 0 10px;
  border: 1px solid var(--jp-border-color1);
  border-radius: 4px;
  background: var(--jp-layout-color1);
  color: var(--jp-ui-font-color1);
  font: inherit;
  cursor: pointer;
}

.wb-Panel button:hover:enabled {
  background: var(--jp-layout-color2);
}

.wb-Panel button:disabled {
  opacity: 0.45;
  cursor: default;
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

.wb-Pill[data-state='running']::before {
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
  overflow: hidden;
  color: var(--jp-ui-font-color1);
  font-variant-numeric: tabular-nums;
  text-overflow: ellipsis;
  white-space: nowrap;
}

.wb-Tools {
  display: flex;
  gap: 6px;
}

.wb-Tools button:first-child {
  min-width: 74px;
}

.wb-Trouble {
  padding: 8px 12px;
  border-bottom: 1px solid var(--jp-error-color1);
}

/* a narrow header gives what it says a line of its own: nothing of it is cut off */
@container workbench (max-width: 460px) {
  .wb-Tools {
    margin-left: auto;
  }

  .wb-Facts {
    order: 1;
    flex-basis: 100%;
    overflow-wrap: anywhere;
    white-space: normal;
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

.wb-Section-tools button {
  min-width: 26px;
  height: 24px;
  padding: 0 7px;
  border-color: transparent;
}

@container workbench (min-width: 760px) {
  .wb-Body {
    flex: 1 1 0;
    flex-direction: row;
    min-height: 0;
  }

  .wb-Graph {
    display: flex;
    flex: 1.1 1 0;
    flex-direction: column;
    min-width: 0;
    border-right: 1px solid var(--jp-border-color2);
    border-bottom: 0;
  }

  .wb-Graph .wb-Section-body {
    display: flex;
    flex: 1 1 0;
    flex-direction: column;
    min-height: 240px;
  }

  .wb-Panel .wb-Graph-view {
    flex: 1 1 0;
    height: auto;
    min-height: 0;
  }

  .wb-Side {
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

.wb-Legend b {
  font-weight: 600;
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

/* graph */

.wb-Graph-view {
  display: flex;
  height: clamp(200px, 36vh, 520px);
  overflow: auto;
  border: 1px solid var(--jp-border-color2);
  border-radius: 4px;
  background: var(--jp-layout-color0);
  cursor: grab;
}

.wb-Graph-view:active {
  cursor: grabbing;
}

.wb-Graph-view svg {
  flex: none;
  margin: auto;
  padding: 8px;
  box-sizing: content-box;
}

.wb-Graph-state {
  min-width: 0;
  overflow: hidden;
  color: var(--jp-ui-font-color2);
  text-overflow: ellipsis;
  white-space: nowrap;
}

.wb-Graph-view svg > g > polygon {
  fill: none;
  stroke: none;
}

.wb-Graph-view text {
  fill: var(--jp-ui-font-color0);
  font-family: var(--jp-ui-font-family);
}

.wb-Graph-view .node :is(polygon, path, ellipse, rect) {
  fill: color-mix(in srgb, var(--wb-device, var(--jp-border-color1)) var(--wb-strength, 14%), var(--jp-layout-color0));
  fill-opacity: 1;
  stroke: var(--wb-device, var(--jp-border-color1));
  stroke-opacity: 1;
  stroke-width: 1.2px;
}

.wb-Graph-view .node polyline {
  stroke: var(--wb-device, var(--jp-border-color1));
}

.wb-Graph-view :is(.wb-mod-scope, .cluster) {
  cursor: pointer;
}

.wb-Graph-view .wb-mod-scope :is(polygon, path, ellipse, rect) {
  stroke-width: 2.2px;
}

.wb-Graph-view .wb-mod-scope:hover :is(polygon, path, ellipse, rect) {
  stroke: var(--jp-brand-color1);
}

.wb-Graph-view .cluster :is(polygon, path) {
  fill: color-mix(in srgb, var(--jp-layout-color2) 45%, transparent);
  stroke: var(--jp-border-color1);
}

.wb-Graph-view .edge path {
  fill: none;
  stroke: var(--jp-ui-font-color2);
}

.wb-Graph-view .edge polygon {
  fill: var(--jp-ui-font-color2);
  stroke: var(--jp-ui-font-color2);
}

.wb-Graph-view g:focus-visible {
  outline: 2px solid var(--jp-brand-color1);
  outline-offset: 3px;
}

@media (prefers-reduced-motion: no-preference) {
  .wb-Graph-view .node :is(polygon, path, ellipse, rect) {
    transition: fill 0.2s;
  }
}

/* charts */

.wb-Chart {
  position: relative;
  margin: 0;
}

.wb-Chart canvas {
  display: block;
  width: 100%;
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
  justify-content: space-between;
  gap: 8px;
  margin-bottom: 2px;
}

.wb-Loss-head b {
  font-weight: 400;
}

.wb-Loss-head output {
  font-size: var(--jp-ui-font-size2);
  font-variant-numeric: tabular-nums;
  font-weight: 600;
}

/* stragglers */

.wb-Stragglers .wb-Section-body {
  container: stragglers / inline-size;
  overflow-x: auto;
}

.wb-Stragglers table {
  width: 100%;
  border-collapse: collapse;
  font-variant-numeric: tabular-nums;
}

.wb-Stragglers :is(th, td) {
  padding: 4px 10px 4px 0;
  border-bottom: 1px solid var(--jp-border-color2);
  font-weight: 400;
  text-align: left;
  white-space: nowrap;
}

.wb-Stragglers thead th {
  color: var(--jp-ui-font-color2);
}

.wb-Stragglers td:last-child {
  width: 40%;
  white-space: normal;
}

.wb-Stragglers .wb-mod-slow :is(th, td:nth-child(3)) {
  font-weight: 700;
}

.wb-Stragglers .wb-mod-slow th::before {
  color: var(--jp-error-color1);
  content: '▲ ';
}

.wb-Stragglers meter {
  width: 54px;
  height: 12px;
}

.wb-Stragglers meter::-webkit-meter-bar {
  height: 6px;
  border: 0;
  border-radius: 3px;
  background: var(--jp-layout-color3);
}

.wb-Stragglers meter::-webkit-meter-optimum-value {
  border-radius: 3px;
  background: var(--jp-brand-color1);
}

.wb-Stragglers meter::-moz-meter-bar {
  background: var(--jp-brand-color1);
}

@container stragglers (max-width: 480px) {
  .wb-Stragglers thead {
    position: absolute;
    overflow: hidden;
    width: 1px;
    height: 1px;
    clip-path: inset(50%);
  }

  .wb-Stragglers tbody tr {
    display: grid;
    grid-template-columns: 1fr auto auto;
    padding: 4px 0;
    border-bottom: 1px solid var(--jp-border-color2);
  }

  .wb-Stragglers tbody :is(th, td) {
    padding: 2px 8px 2px 0;
    border: 0;
  }

  .wb-Stragglers tbody td:nth-child(4) {
    grid-column: 1 / -1;
  }

  .wb-Stragglers tbody td:last-child {
    grid-column: 1 / -1;
    width: auto;
  }
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
  .wb-Legend i,
  .wb-Chart-tip i {
    forced-color-adjust: none;
  }
}
`,""]),o.d(r,{},{A:n})},314(e){e.exports=function(e){var r=[];return r.toString=function(){return this.map(function(r){var o="",t=void 0!==r[5];return r[4]&&(o+="@supports (".concat(r[4],") {")),r[2]&&(o+="@media ".concat(r[2]," {")),t&&(o+="@layer".concat(r[5].length>0?" ".concat(r[5]):""," {")),o+=e(r),t&&(o+="}"),r[2]&&(o+="}"),r[4]&&(o+="}"),o}).join("")},r.i=function(e,o,t,a,i){"string"==typeof e&&(e=[[null,e,void 0]]);var n={};if(t)for(var l=0;l<this.length;l++){var p=this[l][0];null!=p&&(n[p]=!0)}for(var s=0;s<e.length;s++){var c=[].concat(e[s]);t&&n[c[0]]||(void 0!==i&&(void 0===c[5]||(c[1]="@layer".concat(c[5].length>0?" ".concat(c[5]):""," {").concat(c[1],"}")),c[5]=i),o&&(c[2]&&(c[1]="@media ".concat(c[2]," {").concat(c[1],"}")),c[2]=o),a&&(c[4]?(c[1]="@supports (".concat(c[4],") {").concat(c[1],"}"),c[4]=a):c[4]="".concat(a)),r.push(c))}},r}},601(e){e.exports=function(e){return e[1]}},72(e){var r=[];function o(e){for(var o=-1,t=0;t<r.length;t++)if(r[t].identifier===e){o=t;break}return o}function t(e,t){for(var a={},i=[],n=0;n<e.length;n++){var l=e[n],p=t.base?l[0]+t.base:l[0],s=a[p]||0,c="".concat(p," ").concat(s);a[p]=s+1;var d=o(c),b={css:l[1],media:l[2],sourceMap:l[3],supports:l[4],layer:l[5]};if(-1!==d)r[d].references++,r[d].updater(b);else{var u=function(e,r){var o=r.domAPI(r);return o.update(e),function(r){r?(r.css!==e.css||r.media!==e.media||r.sourceMap!==e.sourceMap||r.supports!==e.supports||r.layer!==e.layer)&&o.update(e=r):o.remove()}}(b,t);t.byIndex=n,r.splice(n,0,{identifier:c,updater:u,references:1})}i.push(c)}return i}e.exports=function(e,a){var i=t(e=e||[],a=a||{});return function(e){e=e||[];for(var n=0;n<i.length;n++){var l=o(i[n]);r[l].references--}for(var p=t(e,a),s=0;s<i.length;s++){var c=o(i[s]);0===r[c].references&&(r[c].updater(),r.splice(c,1))}i=p}}},659(e){var r={};e.exports=function(e,o){var t=function(e){if(void 0===r[e]){var o=document.querySelector(e);if(window.HTMLIFrameElement&&o instanceof window.HTMLIFrameElement)try{o=o.contentDocument.head}catch(e){o=null}r[e]=o}return r[e]}(e);if(!t)throw Error("Couldn't find a style target. This probably means that the value for the 'insert' parameter is invalid.");t.appendChild(o)}},540(e){e.exports=function(e){var r=document.createElement("style");return e.setAttributes(r,e.attributes),e.insert(r,e.options),r}},56(e,r,o){e.exports=function(e){var r=o.nc;r&&e.setAttribute("nonce",r)}},825(e){e.exports=function(e){if("u"<typeof document)return{update:function(){},remove:function(){}};var r=e.insertStyleElement(e);return{update:function(o){var t,a,i;t="",o.supports&&(t+="@supports (".concat(o.supports,") {")),o.media&&(t+="@media ".concat(o.media," {")),(a=void 0!==o.layer)&&(t+="@layer".concat(o.layer.length>0?" ".concat(o.layer):""," {")),t+=o.css,a&&(t+="}"),o.media&&(t+="}"),o.supports&&(t+="}"),(i=o.sourceMap)&&"u">typeof btoa&&(t+="\n/*# sourceMappingURL=data:application/json;base64,".concat(btoa(unescape(encodeURIComponent(JSON.stringify(i))))," */")),e.styleTagTransform(t,r,e.options)},remove:function(){var e;null===(e=r).parentNode||e.parentNode.removeChild(e)}}}},113(e){e.exports=function(e,r){if(r.styleSheet)r.styleSheet.cssText=e;else{for(;r.firstChild;)r.removeChild(r.firstChild);r.appendChild(document.createTextNode(e))}}},579(e,r,o){var t=o(72),a=o.n(t),i=o(825),n=o.n(i),l=o(659),p=o.n(l),s=o(56),c=o.n(s),d=o(540),b=o.n(d),u=o(113),w=o.n(u),h=o(475),f={};f.styleTagTransform=w(),f.setAttributes=c(),f.insert=p().bind(null,"head"),f.domAPI=n(),f.insertStyleElement=b(),a()(h.A,f),h.A&&h.A.locals&&h.A.locals}}]);