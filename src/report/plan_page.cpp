// SPDX-License-Identifier: Apache-2.0
#include "trireme/report/plan_page.h"

#include "layer_table.h"
#include "markup.h"
#include "timeline.h"

#include "trireme/core/text.h"
#include "trireme/report/text.h"

#include <algorithm>
#include <array>

namespace trireme::report {
namespace {

constexpr double kWidth = 1080, kLeft = 86, kRight = 990;
constexpr double kMemoryTop = 10, kMemoryHeight = 170, kBetween = 16;

std::string card(std::string_view what, std::string_view much, std::string_view more);
std::string cards(const plan::Plan& plan, const simulate::Simulation& timeline);
Limits limits_of(const plan::Plan& plan, int rank);
std::string panel(const plan::Plan& plan, const chain::Chain& chain,
                  const simulate::Simulation& timeline, int rank);
std::string legend(const simulate::Simulation& timeline);
std::string stage_section(const plan::StagePlan& stage, const chain::Chain& chain);
std::string alternatives(const plan::Plan& plan);

}  // namespace

std::string plan_page(const plan::Plan& plan, const chain::Chain& chain,
                      const simulate::Simulation& timeline) {
  std::string body = element("h1", {}, escaped(concat("Plan for ", plan.chain_name)));
  body += element(
      "p", {},
      escaped(concat(chain.length(), " layers, ", plan.micro_batches,
                     plan.micro_batches == 1 ? " micro-batch" : " micro-batches", " per step, ",
                     plan.stages.size() == 1 ? "one stage" : concat(plan.stages.size(), " stages"),
                     plan.solver.empty() ? "" : concat(", by ", plan.solver))));
  body += cards(plan, timeline) + "\n";
  for (int rank = 0; rank < static_cast<int>(timeline.ranks.size()); ++rank) {
    body += element("h2", {}, concat("Rank ", rank, ": memory and lanes over one step")) + "\n";
    body += panel(plan, chain, timeline, rank);
  }
  body += legend(timeline);
  body += alternatives(plan);
  for (const plan::StagePlan& stage : plan.stages) body += stage_section(stage, chain);
  return page(concat("Plan for ", plan.chain_name), body);
}

namespace {

std::string card(std::string_view what, std::string_view much, std::string_view more) {
  return element("div", {{"class", "card"}},
                 element("div", {{"class", "what"}}, escaped(what)) +
                     element("div", {{"class", "much"}}, escaped(much)) +
                     element("div", {{"class", "more"}}, escaped(more)));
}

std::string cards(const plan::Plan& plan, const simulate::Simulation& timeline) {
  const Seconds ideal = ideal_step(timeline);
  std::string out =
      card("step", time_text(timeline.step),
           concat("ideal ", time_text(ideal), ", ", overhead_text(timeline.step, ideal)));
  out += card("recompute", time_text(timeline.recompute), "over all ranks");
  out += card("bubble", percent_text(timeline.bubble), "of all ranks' time");
  Bytes peak, budget, moved, kept;
  for (const simulate::RankResult& rank : timeline.ranks) {
    peak = std::max(peak, rank.peak.size);
    moved += rank.moved;
  }
  for (const plan::StagePlan& stage : plan.stages) {
    budget = std::max(budget, stage.budget);
    kept = std::max(kept, stage.predicted.kept);
  }
  out +=
      card("peak", to_text(peak), budget > Bytes(0) ? concat("of ", to_text(budget)) : "no budget");
  if (kept > Bytes(0)) out += card("kept", to_text(kept), "per micro-batch, at most");
  out += card("moved", to_text(moved), "to the outer tier, per step");
  return element("div", {{"class", "cards"}}, out);
}

Limits limits_of(const plan::Plan& plan, int rank) {
  Limits limits;
  for (const plan::StagePlan& stage : plan.stages) {
    if (stage.rank != rank) continue;
    limits.budget = std::max(limits.budget, stage.budget);
    limits.always += stage.static_bytes;
  }
  return limits;
}

std::string panel(const plan::Plan& plan, const chain::Chain& chain,
                  const simulate::Simulation& timeline, int rank) {
  const double end = timeline.step > Seconds(0) ? timeline.step.count() : 1;
  const Scale time{0, end, kLeft, kRight, false};
  const Area memory{time, kMemoryTop, kMemoryTop + kMemoryHeight};
  const Lanes lanes =
      lane_rows(timeline, chain, rank, {time, memory.bottom + kBetween, memory.bottom + kBetween});
  const simulate::RankResult& result = timeline.ranks[static_cast<std::size_t>(rank)];
  return svg(kWidth, lanes.bottom + 26, concat("memory and lanes of rank ", rank),
             concat(time_axis(time, kMemoryTop, lanes.bottom),
                    memory_chart(result, limits_of(plan, rank), memory), lanes.drawing));
}

std::string legend(const simulate::Simulation& timeline) {
  struct Entry {
    std::string_view kind, name;
    bool there;
  };
  const auto any = [&](auto is) {
    return std::any_of(timeline.events.begin(), timeline.events.end(), is);
  };
  using simulate::Event;
  using simulate::Lane;
  const std::array<Entry, 5> entries{
      {{"forward", "forward", true},
       {"again", "recompute", any([](const Event& event) { return event.again; })},
       {"backward", "backward", true},
       {"copy", "copy out or in", any([](const Event& event) {
          return event.lane == Lane::kOut || event.lane == Lane::kIn;
        })},
       {"link", "message", any([](const Event& event) { return event.lane == Lane::kLink; })}}};
  std::string out;
  double x = kLeft;
  for (const Entry& entry : entries) {
    if (!entry.there) continue;
    out += element("rect", {{"x", pixels(x)},
                            {"y", "4"},
                            {"width", "14"},
                            {"height", "14"},
                            {"class", std::string(entry.kind)}});
    out += label(x + 20, 15, "", entry.name);
    x += 44 + 7.0 * static_cast<double>(entry.name.size());
  }
  return svg(kWidth, 24, "colours", out + label(x, 15, "", "numbers are layers"));
}

std::string stage_section(const plan::StagePlan& stage, const chain::Chain& chain) {
  const program::StageProgram& program = stage.program;
  std::string out = element("h2", {},
                            concat("Layers ", program.first_layer, " to ", program.last_layer,
                                   " on rank ", stage.rank, ", for one micro-batch"));
  out += element("pre", {},
                 escaped(concat("forward: ", actions_text(program.forward),
                                "\nbackward: ", actions_text(program.backward))));
  return out + "\n" + html_table(layer_rows(chain, program));
}

std::string alternatives(const plan::Plan& plan) {
  if (plan.alternatives.empty()) return "";
  return element("h2", {}, "Instead of this plan") + "\n" + html_table(alternative_rows(plan));
}

}  // namespace
}  // namespace trireme::report
