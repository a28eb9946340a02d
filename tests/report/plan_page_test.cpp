// SPDX-License-Identifier: Apache-2.0
#include "trireme/report/plan_page.h"

#include "report/samples.h"
#include "report/well_formed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::report {
namespace {

using program::Op;
using testing::HasSubstr;
using testing::Not;

std::string page_of_four_layers(Bytes budget = Bytes(14)) {
  const chain::Chain chain = four_layers();
  const plan::Plan plan = one_stage(chain, four_layers_in_14_bytes(), budget);
  return plan_page(plan, chain, timeline(plan, chain, chain::uniform_platform(1, budget)));
}

/// Two ranks with links, copies and two micro-batches.
std::string page_of_two_ranks() {
  const chain::Chain chain = two_layers();
  chain::Platform platform = chain::uniform_platform(2, Bytes(100));
  platform.default_link = {.rate = BytesPerSecond(100), .latency = Seconds(0)};
  platform.ranks[0].out = platform.ranks[0].in = BytesPerSecond(100);
  platform.ranks[0].host = Bytes(100);
  plan::Plan plan = two_stages(2);
  plan.stages[0].program.forward.push_back({Op::kOffloadTape, 1});
  plan.stages[0].program.backward.insert(plan.stages[0].program.backward.begin(),
                                         {Op::kPrefetchTape, 1});
  return plan_page(plan, chain, timeline(plan, chain, platform));
}

TEST(MarkupFault, SeesWhatBrowsersForgive) {
  EXPECT_EQ(markup_fault("<p class=\"a\">1 &lt; 2<br/></p>"), "");
  EXPECT_NE(markup_fault("<p><b></p></b>"), "");
  EXPECT_NE(markup_fault("<p>"), "");
  EXPECT_NE(markup_fault("<p>a & b</p>"), "");
  EXPECT_NE(markup_fault("<p class=a></p>"), "");
  EXPECT_NE(markup_fault("<p class=\"a<b\"></p>"), "");
}

TEST(PlanPage, IsWellFormed) {
  EXPECT_EQ(markup_fault(page_of_four_layers()), "");
  EXPECT_EQ(markup_fault(page_of_two_ranks()), "");
}

TEST(PlanPage, NeedsNothingFromOutside) {
  EXPECT_EQ(outside_of(page_of_four_layers()), "");
}

// Each rank computes for 6 of 9 s.
TEST(PlanPage, ShowsEnergyAndClocksWhereThereAreSome) {
  const chain::Chain chain = two_layers();
  chain::Platform platform = chain::uniform_platform(2, Bytes(0));
  plan::Plan plan = two_stages(2);
  const auto page = [&] { return plan_page(plan, chain, timeline(plan, chain, platform)); };
  EXPECT_THAT(page(), Not(HasSubstr(">energy<")));
  EXPECT_THAT(page(), Not(HasSubstr("backward clock")));
  for (chain::RankSpec& rank : platform.ranks) rank.power = {.busy = Watts(100), .idle = Watts(10)};
  plan.stages[1].backward_clock = "1200MHz";
  const std::string shown = page();
  EXPECT_EQ(markup_fault(shown), "");
  EXPECT_THAT(shown, HasSubstr(">1.26 kJ<"));
  EXPECT_THAT(shown, HasSubstr("60.0 J idle"));
  EXPECT_THAT(shown, HasSubstr("backward clock"));
  EXPECT_THAT(shown, HasSubstr(">1200MHz<"));
}

TEST(PlanPage, DrawsABlockPerRun) {
  const std::string page = page_of_four_layers();

  EXPECT_EQ(count_of(page, "class=\"block forward\""), 4);
  EXPECT_EQ(count_of(page, "class=\"block recompute\""), 2);
  EXPECT_EQ(count_of(page, "class=\"block backward\""), 4);
}

TEST(PlanPage, SaysWhatBecomesOfEveryLayer) {
  const std::string page = page_of_four_layers();

  // Layer 1 is recomputed and keeps only its input; layer 2 keeps its tape.
  EXPECT_THAT(page, HasSubstr("<td class=\"left\">a</td><td class=\"right\">2.00 s</td>"
                              "<td class=\"right\">3.00 s</td><td class=\"right\">2 B</td>"
                              "<td class=\"right\">4 B</td><td class=\"left\">output</td>"
                              "<td class=\"right\">2</td><td class=\"right\">2.00 s</td>"));
  EXPECT_THAT(page, HasSubstr("<td class=\"right\">3 B</td><td class=\"left\">tape</td>"
                              "<td class=\"right\">1</td><td class=\"left\"></td>"));
}

TEST(PlanPage, DrawsTheBudgetAndThePeak) {
  const std::string page = page_of_four_layers();

  EXPECT_EQ(count_of(page, "class=\"budget\""), 1);
  EXPECT_THAT(page, HasSubstr("peak 14 B after"));
}

TEST(PlanPage, SaysABudgetThatIsFarAboveInsteadOfDrawingIt) {
  const std::string page = page_of_four_layers(Bytes(1000));

  EXPECT_EQ(count_of(page, "class=\"budget\""), 0);
  EXPECT_THAT(page, HasSubstr("budget above"));
}

TEST(PlanPage, ShowsEveryLaneThatDoesAnything) {
  const std::string page = page_of_two_ranks();

  EXPECT_EQ(count_of(page, ">compute</text>"), 2);
  EXPECT_EQ(count_of(page, ">copies out</text>"), 1);
  EXPECT_EQ(count_of(page, ">copies in</text>"), 1);
  EXPECT_EQ(count_of(page, ">outputs to rank 1</text>"), 1);
  EXPECT_EQ(count_of(page, ">gradients to rank 0</text>"), 1);
  EXPECT_EQ(count_of(page, "class=\"block copy\""), 4);  // two micro-batches, out and in
}

TEST(PlanPage, DrawsAPipelineWithAStageTable) {
  const std::string page = page_of_two_ranks();

  EXPECT_EQ(count_of(page, ">rank 0</text>"), 1);
  EXPECT_EQ(count_of(page, ">rank 1</text>"), 1);
  EXPECT_THAT(page, HasSubstr("<h2>Stages, as planned"));
  EXPECT_THAT(page, HasSubstr("<td class=\"right\">2</td><td class=\"right\">1</td>"
                              "<td class=\"right\">2</td><td class=\"right\">1</td>"));
}

TEST(PlanPage, NumbersTheChunksOfRanksAsTheOrderDoes) {
  const chain::Chain chain = four_layers();
  const plan::Plan plan = two_chunks_on_two_ranks();

  const std::string page =
      plan_page(plan, chain, timeline(plan, chain, chain::uniform_platform(2, Bytes(0))));

  EXPECT_EQ(markup_fault(page), "");
  EXPECT_THAT(page, HasSubstr("<h2>Chunks, as planned"));
  EXPECT_THAT(page, HasSubstr("<td class=\"right\">3</td><td class=\"right\">0</td>"
                              "<td class=\"right\">4..5</td>"));
  EXPECT_THAT(page, HasSubstr("0:backward 4 (d), chunk 3\n"));
  EXPECT_THAT(page, HasSubstr("1:forward_tape 1 (a), chunk 0\n"));
  EXPECT_EQ(count_of(page, " chunk1\""), 8);  // passes of the second chunk of each rank
}

TEST(PlanPage, LeavesThePipelineOutOnOneRank) {
  const std::string page = page_of_four_layers();

  EXPECT_THAT(page, Not(HasSubstr("Pipeline over one step")));
  EXPECT_THAT(page, Not(HasSubstr("Stages, as planned")));
}

TEST(PlanPage, TellsWhatKindsOfBytesMoveAndWhatIsOffloaded) {
  const chain::Chain chain = four_layers();
  plan::Plan plan = one_stage(chain, four_layers_in_14_bytes(), Bytes(14));
  const auto step = timeline(plan, chain, chain::uniform_platform(1, Bytes(14)));
  plan.stages[0].offloaded_optimizer = Bytes(40);
  plan.stages[0].streamed = {1, 2, 3};

  const std::string page = plan_page(plan, chain, with_moves(step));

  EXPECT_EQ(markup_fault(page), "");
  EXPECT_THAT(page, HasSubstr(">moved</div><div class=\"much\">70 B</div>"
                              "<div class=\"more\">40 B of optimizer state</div>"
                              "<div class=\"more\">30 B of weights, gradients</div>"
                              "<div class=\"more\">per step, 75.0 % overlapped</div>"));
  EXPECT_THAT(page, HasSubstr("<h2>Stages, as planned"));
  EXPECT_THAT(page, HasSubstr("optimizer offloaded</th>"));
  EXPECT_THAT(page, HasSubstr("<td class=\"right\">40 B</td><td class=\"right\">3</td></tr>"));
  EXPECT_THAT(plan_page(plan, chain, step), HasSubstr(">moved</div><div class=\"much\">nothing<"));
}

TEST(PlanPage, TellsActivationsThatMove) {
  EXPECT_THAT(page_of_two_ranks(), HasSubstr(">moved</div><div class=\"much\">40 B</div>"
                                             "<div class=\"more\">40 B of activations</div>"));
}

TEST(PlanPage, EscapesNames) {
  chain::Chain chain = four_layers();
  chain.name = "<script>&\"";
  chain.layers[0].name = "a<b";
  const plan::Plan plan = one_stage(chain, four_layers_in_14_bytes(), Bytes(14));

  const std::string page =
      plan_page(plan, chain, timeline(plan, chain, chain::uniform_platform(1, Bytes(14))));

  EXPECT_EQ(markup_fault(page), "");
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, HasSubstr("a&lt;b"));
}

TEST(PlanPage, StaysSmallOnLongSteps) {
  chain::Chain chain{.name = "long", .input = Bytes(1), .layers = {}};
  for (int i = 0; i < 200; ++i) chain.layers.push_back(layer("l", 1, 2, 1, 3, 1));
  plan::Plan plan = one_stage(chain, program::keep_all(1, 200), Bytes(0));
  plan.micro_batches = 50;

  const std::string page =
      plan_page(plan, chain, timeline(plan, chain, chain::uniform_platform(1, Bytes(0))));

  // 20 000 runs: one block per pass of a micro-batch, and no more of the curve than pixels show.
  EXPECT_EQ(count_of(page, "class=\"block forward\""), 50);
  EXPECT_LT(page.size(), 200'000U);
}

TEST(PlanPage, SurvivesAChainThatCostsNothing) {
  chain::Chain chain{.name = "nothing", .input = Bytes(0), .layers = {layer("l", 0, 0, 0, 0, 0)}};
  const plan::Plan plan = one_stage(chain, program::keep_all(1, 1), Bytes(0));

  const std::string page =
      plan_page(plan, chain, timeline(plan, chain, chain::uniform_platform(1, Bytes(0))));

  EXPECT_EQ(markup_fault(page), "");
  EXPECT_THAT(page, Not(HasSubstr("nan")));
  EXPECT_THAT(page, Not(HasSubstr("inf\"")));
}

}  // namespace
}  // namespace trireme::report
