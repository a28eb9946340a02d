// The style sheet of all pages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace trireme::report {

/// Classes s0..s11 are curve colours, the others name what they style. Contains no '<' and no '&',
/// since it is embedded unescaped.
inline constexpr std::string_view kStyle = R"css(
:root{color-scheme:light dark;--ground:#ffffff;--panel:#f6f7f9;--ink:#1b1f24;--soft:#5c6570;
--rule:#dfe3e8;--budget:#c2410c;--held:#2f6bc0;--forward:#2f6bc0;--recompute:#eda12f;
--backward:#1d7a5a;--copy:#7b4fb5;--message:#66707c;--on:#ffffff}
@media (prefers-color-scheme:dark){:root{--ground:#14171b;--panel:#1b1f25;--ink:#e4e7eb;
--soft:#98a2ad;--rule:#30363d;--budget:#fb923c;--held:#7aa5f2;--forward:#6d9eeb;
--recompute:#eda12f;--backward:#57b894;--copy:#ab8be0;--message:#8b95a1;--on:#14171b}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);
font:14px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1120px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:22px;font-weight:600;margin:0 0 2px}
h2{font-size:16px;font-weight:600;margin:34px 0 8px}
p{margin:4px 0 12px;color:var(--soft)}
.notice{color:var(--ink);border-left:4px solid var(--budget);padding:2px 10px;
overflow-wrap:anywhere}
.cards{display:flex;flex-wrap:wrap;gap:10px;margin:18px 0 8px}
.card{background:var(--panel);border:1px solid var(--rule);border-radius:8px;padding:8px 14px;
flex:1 1 128px}
.card .what{color:var(--soft);font-size:12px}
.card .much{font-size:18px;font-weight:600;font-variant-numeric:tabular-nums}
.card .more{color:var(--soft);font-size:12px;white-space:nowrap}
.table{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:13px}
th,td{padding:4px 14px 4px 0;border-bottom:1px solid var(--rule);white-space:nowrap}
th{color:var(--soft);font-weight:500;vertical-align:bottom;white-space:normal}
.left{text-align:left}.right{text-align:right}
pre{background:var(--panel);border:1px solid var(--rule);border-radius:8px;padding:10px 14px;
font:12px/1.6 ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre-wrap}
dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 16px;margin:10px 0 14px}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
.picture{overflow-x:auto}
.picture svg{display:block;min-width:900px;max-width:100%;height:auto}
.legend{display:flex;flex-wrap:wrap;gap:4px 20px;margin:26px 0 0;font-size:13px;color:var(--soft)}
.key{display:inline-flex;align-items:center;gap:6px}
svg text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;fill:var(--soft)}
svg .end{text-anchor:end}svg .middle{text-anchor:middle}
svg .name{fill:var(--ink)}svg .inside{fill:var(--on);font-size:10px;text-anchor:middle;
pointer-events:none}
.recompute+.inside{fill:#1b1f24}
svg .small{font-size:9px}svg .heading{fill:var(--ink);font-weight:600}
svg .over{fill:var(--budget)}
.grid{stroke:var(--rule);stroke-width:1}.axis{stroke:var(--soft);stroke-width:1}
.budget{stroke:var(--budget);stroke-width:1.5;stroke-dasharray:6 4}
.ideal{stroke:var(--soft);stroke-width:1;stroke-dasharray:2 4}
.curve{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round}
.pale{stroke-width:1;stroke-opacity:.4}
.baseline{stroke-width:1.5;stroke-dasharray:5 4}
.dot{fill:currentColor;stroke:var(--ground);stroke-width:1}
.hollow{fill:var(--ground);stroke:currentColor;stroke-width:1.5}
.held{fill:var(--held);fill-opacity:.22;stroke:var(--held);stroke-width:1.2}
.static{fill:var(--message);fill-opacity:.28}
.predicted{fill:none;stroke:var(--ink);stroke-width:1.3;stroke-dasharray:4 2}
.peak{fill:var(--budget);stroke:var(--ground);stroke-width:1.5;stroke-dasharray:none}
.peak.predicted{fill:var(--ground);stroke:var(--budget)}
.row{fill:var(--panel)}
.forward{fill:var(--forward)}.recompute{fill:var(--recompute)}

.backward{fill:var(--backward)}.weights{fill:var(--backward);fill-opacity:.6}
.copy{fill:var(--copy)}.message{fill:var(--message)}
.wait{fill:var(--soft);fill-opacity:.25}.other{fill:var(--soft);fill-opacity:.6}
.chunk1{filter:brightness(1.3)}.chunk2{filter:brightness(.72)}.chunk3{filter:brightness(1.55)}
.block{stroke:var(--ground);stroke-width:.5}
.s0{color:#6b7480}.s1{color:#c2570c}.s2{color:#b58a00}.s3{color:#8a5a2b}.s4{color:#0e8a9e}
.s5{color:#5f8f1f}.s6{color:#2f6bd8}.s7{color:#d03a6b}.s8{color:#7a4fc0}.s9{color:#1c9a66}
.s10{color:#a8327d}.s11{color:#3d4f66}
)css";

}  // namespace trireme::report
