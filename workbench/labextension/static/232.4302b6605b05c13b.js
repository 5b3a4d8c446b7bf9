"use strict";(self.rspackChunkworkbench_lab=self.rspackChunkworkbench_lab||[]).push([[232],{475(e,o,r){var t=r(601),n=r.n(t),i=r(314),a=(r.n(i))()(n());a.push([e.id,`/* The Workbench panel. Colours come from the theme; only device and line colours are data. */

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

/* body: the graph beside the charts where there is room, above them where not */

.wb-Body {
  display: flex;
  flex: 1 0 auto;
  flex-direction: column;
}

.wb-Section {
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
  align-items: center;
  gap: 6px;
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

/* graph */

.wb-Graph-view {
  display: flex;
  height: clamp(220px, 46vh, 520px);
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
  height: 10px;
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
`,""]),r.d(o,{},{A:a})},314(e){e.exports=function(e){var o=[];return o.toString=function(){return this.map(function(o){var r="",t=void 0!==o[5];return o[4]&&(r+="@supports (".concat(o[4],") {")),o[2]&&(r+="@media ".concat(o[2]," {")),t&&(r+="@layer".concat(o[5].length>0?" ".concat(o[5]):""," {")),r+=e(o),t&&(r+="}"),o[2]&&(r+="}"),o[4]&&(r+="}"),r}).join("")},o.i=function(e,r,t,n,i){"string"==typeof e&&(e=[[null,e,void 0]]);var a={};if(t)for(var l=0;l<this.length;l++){var p=this[l][0];null!=p&&(a[p]=!0)}for(var s=0;s<e.length;s++){var c=[].concat(e[s]);t&&a[c[0]]||(void 0!==i&&(void 0===c[5]||(c[1]="@layer".concat(c[5].length>0?" ".concat(c[5]):""," {").concat(c[1],"}")),c[5]=i),r&&(c[2]&&(c[1]="@media ".concat(c[2]," {").concat(c[1],"}")),c[2]=r),n&&(c[4]?(c[1]="@supports (".concat(c[4],") {").concat(c[1],"}"),c[4]=n):c[4]="".concat(n)),o.push(c))}},o}},601(e){e.exports=function(e){return e[1]}},72(e){var o=[];function r(e){for(var r=-1,t=0;t<o.length;t++)if(o[t].identifier===e){r=t;break}return r}function t(e,t){for(var n={},i=[],a=0;a<e.length;a++){var l=e[a],p=t.base?l[0]+t.base:l[0],s=n[p]||0,c="".concat(p," ").concat(s);n[p]=s+1;var d=r(c),b={css:l[1],media:l[2],sourceMap:l[3],supports:l[4],layer:l[5]};if(-1!==d)o[d].references++,o[d].updater(b);else{var u=function(e,o){var r=o.domAPI(o);return r.update(e),function(o){o?(o.css!==e.css||o.media!==e.media||o.sourceMap!==e.sourceMap||o.supports!==e.supports||o.layer!==e.layer)&&r.update(e=o):r.remove()}}(b,t);t.byIndex=a,o.splice(a,0,{identifier:c,updater:u,references:1})}i.push(c)}return i}e.exports=function(e,n){var i=t(e=e||[],n=n||{});return function(e){e=e||[];for(var a=0;a<i.length;a++){var l=r(i[a]);o[l].references--}for(var p=t(e,n),s=0;s<i.length;s++){var c=r(i[s]);0===o[c].references&&(o[c].updater(),o.splice(c,1))}i=p}}},659(e){var o={};e.exports=function(e,r){var t=function(e){if(void 0===o[e]){var r=document.querySelector(e);if(window.HTMLIFrameElement&&r instanceof window.HTMLIFrameElement)try{r=r.contentDocument.head}catch(e){r=null}o[e]=r}return o[e]}(e);if(!t)throw Error("Couldn't find a style target. This probably means that the value for the 'insert' parameter is invalid.");t.appendChild(r)}},540(e){e.exports=function(e){var o=document.createElement("style");return e.setAttributes(o,e.attributes),e.insert(o,e.options),o}},56(e,o,r){e.exports=function(e){var o=r.nc;o&&e.setAttribute("nonce",o)}},825(e){e.exports=function(e){if("u"<typeof document)return{update:function(){},remove:function(){}};var o=e.insertStyleElement(e);return{update:function(r){var t,n,i;t="",r.supports&&(t+="@supports (".concat(r.supports,") {")),r.media&&(t+="@media ".concat(r.media," {")),(n=void 0!==r.layer)&&(t+="@layer".concat(r.layer.length>0?" ".concat(r.layer):""," {")),t+=r.css,n&&(t+="}"),r.media&&(t+="}"),r.supports&&(t+="}"),(i=r.sourceMap)&&"u">typeof btoa&&(t+="\n/*# sourceMappingURL=data:application/json;base64,".concat(btoa(unescape(encodeURIComponent(JSON.stringify(i))))," */")),e.styleTagTransform(t,o,e.options)},remove:function(){var e;null===(e=o).parentNode||e.parentNode.removeChild(e)}}}},113(e){e.exports=function(e,o){if(o.styleSheet)o.styleSheet.cssText=e;else{for(;o.firstChild;)o.removeChild(o.firstChild);o.appendChild(document.createTextNode(e))}}},579(e,o,r){var t=r(72),n=r.n(t),i=r(825),a=r.n(i),l=r(659),p=r.n(l),s=r(56),c=r.n(s),d=r(540),b=r.n(d),u=r(113),f=r.n(u),h=r(475),w={};w.styleTagTransform=f(),w.setAttributes=c(),w.insert=p().bind(null,"head"),w.domAPI=a(),w.insertStyleElement=b(),n()(h.A,w),h.A&&h.A.locals&&h.A.locals}}]);