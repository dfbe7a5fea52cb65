// The styles of pages and figures, for light and dark settings. All text has a contrast of at least
// 4.5 to 1 against its background.

const LIGHT = `--bg:#ffffff;--text:#1c2430;--dim:#545e6c;--line:#d6dbe2;--lane0:#f5f7fa;--lane1:#eceff4;
--h0:#2459b8;--h1:#9a4a06;--h2:#0c6b5e;--onBar:#ffffff;--fault:#c2410c;--faultText:#9a3412;--harm:#b91c1c;
--good:#166534;--refused:#6d28d9;--deadline:#111827;--expiry:#be185d;--box:#f5f7fa`;
const DARK = `--bg:#12161c;--text:#e6eaf0;--dim:#a3adba;--line:#323a46;--lane0:#1a2028;--lane1:#222934;
--h0:#8ab4ff;--h1:#f3b26b;--h2:#5fd3bf;--onBar:#0d1117;--fault:#fb923c;--faultText:#fdba74;--harm:#ff7b72;
--good:#7ee2a0;--refused:#c9a7ff;--deadline:#f3f4f6;--expiry:#ff8cc6;--box:#1a2028`;

/** Styles for the elements of a figure. */
export const FIGURE_STYLE: string = `:root{color-scheme:light dark;${LIGHT}}
@media (prefers-color-scheme:dark){:root{${DARK}}}
svg{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
svg text{fill:var(--text)}
.paper{fill:var(--bg)}
.lane0{fill:var(--lane0)}.lane1{fill:var(--lane1)}
.name{font-weight:600;font-size:13px}
svg .small,svg .time{fill:var(--dim);font-size:11px}
svg .time{text-anchor:middle}
.grid{stroke:var(--line);stroke-width:1}
.h0{fill:var(--h0)}.h1{fill:var(--h1)}.h2{fill:var(--h2)}
.afterwards{fill-opacity:.12;stroke-dasharray:4 3;stroke-width:1.5}
.afterwards.h0{stroke:var(--h0)}.afterwards.h1{stroke:var(--h1)}.afterwards.h2{stroke:var(--h2)}
svg .onBar{fill:var(--onBar);font-size:12px;font-weight:600}
.doubt{fill:url(#doubt);stroke:var(--deadline);stroke-width:1}
.hatch{stroke:var(--deadline);stroke-width:2.5}
.hatchPaper{fill:var(--bg);fill-opacity:.72}
.ask{stroke:var(--dim);stroke-width:1.6}
.renewal{stroke:var(--text);stroke-width:1.6}
.renewalFailed{stroke:var(--harm);stroke-width:1.8}
.deadline{stroke:var(--deadline);stroke-width:2}
.flag{fill:var(--deadline)}
svg .deadlineText{fill:var(--deadline);font-size:11px;font-weight:600}
.expiry{stroke:var(--expiry);stroke-width:1.6;stroke-dasharray:6 4}
svg .expiryText{fill:var(--expiry);font-size:11px;font-weight:600;text-anchor:end}
.fault{fill:var(--fault);fill-opacity:.13;stroke:var(--fault);stroke-opacity:.55;stroke-width:1}
svg .faultText{fill:var(--faultText);font-size:11.5px;font-weight:600}
svg .note{font-size:11.5px}
svg .note,svg .faultText,svg .deadlineText,svg .expiryText,svg .count{paint-order:stroke;stroke:var(--lane0);stroke-width:3px;stroke-linejoin:round}
.flight{stroke:var(--fault);stroke-width:1;stroke-opacity:.45}
.stem{stroke:var(--text);stroke-width:1}
.mark.admitted{fill:var(--good)}
.mark.harm{fill:var(--harm)}
.mark.refused{fill:var(--bg);stroke:var(--refused);stroke-width:1.5}
.mark.heldBack{fill:var(--bg);stroke:var(--text);stroke-width:1.4}
.stretch.admitted{fill:var(--good)}.stretch.harm{fill:var(--harm)}
.stretch.refused{fill:var(--refused)}.stretch.heldBack{fill:var(--dim)}
svg .count{font-size:11.5px;font-weight:600}
svg .count.harm{fill:var(--harm)}svg .count.refused{fill:var(--refused)}svg .count.admitted{fill:var(--good)}
path.finding{fill:none;stroke:var(--dim);stroke-width:2}
path.finding.harm{stroke:var(--harm)}
svg .findingText{font-weight:700;font-size:13px;text-anchor:middle}
svg .findingText.harm{fill:var(--harm)}
svg .title{font-size:16px;font-weight:700}`;

export const PAGE_STYLE: string = `${FIGURE_STYLE}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--text);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
main{max-width:1200px;margin:0 auto;padding:28px 20px 48px}
h1{font-size:clamp(1.5rem,4.5vw,2.1rem);line-height:1.2;margin:.1em 0 .5em}
h2{font-size:1.2rem;margin:2.2em 0 .2em}
p{max-width:82ch;margin:.5em 0}
.over{color:var(--dim);margin:0}
.how{color:var(--dim)}
.scroll{overflow-x:auto;border:1px solid var(--line);border-radius:8px;display:flex;margin:.7em 0;background:var(--bg)}
.scroll svg{display:block;flex:none}
.names{position:sticky;left:0;background:var(--bg);border-right:1px solid var(--line);z-index:1}
.tableBox{overflow-x:auto;margin:1.4em 0}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;min-width:min(100%,34rem)}
th,td{text-align:left;padding:.45em 1.1em .45em .6em;border-bottom:1px solid var(--line);vertical-align:top}
thead th{border-bottom:2px solid var(--line)}
tbody th{font-weight:400}
td{font-weight:650;white-space:nowrap}
td.harm{color:var(--harm)}
.tenure{background:var(--box)}
ul.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.35em 1.4em;padding:.8em 1em;margin:1.6em 0 0;background:var(--box);border-radius:8px;font-size:.86rem}
ul.legend li{display:flex;align-items:center;gap:.5em}
.moral{border-left:4px solid var(--h0);padding-left:.9em;margin:1.8em 0}
pre{overflow-x:auto;background:var(--box);padding:1em;border-radius:8px;font-size:.82rem;line-height:1.45}
code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
summary{cursor:pointer}
footer{margin-top:2.4em;padding-top:1em;border-top:1px solid var(--line);color:var(--dim);font-size:.9rem}
@media (max-width:600px){main{padding:18px 14px 36px}td{white-space:normal}table{font-size:.88rem}tbody th{min-width:8.5rem}th,td{padding:.4em .7em .4em .4em}}
@media print{.scroll{overflow:visible}}`;
