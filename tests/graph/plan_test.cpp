// Plan files of graphs.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/graph/plan.h"

#include "graph/reading.h"
#include "support/input_error.h"
#include "support/temporary_folder.h"

#include "trireme/io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::graph {
namespace {

using testing::HasSubstr;

Graph three_nodes() {
  return {.name = "three",
          .nodes = {{.name = "a", .bytes = Bytes(1)},
                    {.name = "b", .inputs = {0}, .bytes = Bytes(2), .flops = 1},
                    {.name = "c", .inputs = {0, 1}, .bytes = Bytes(3), .flops = 1}}};
}

Plan some_plan() {
  return {.solver = "poet",
          .memory = Bytes(10),
          .step = Seconds(1.5),
          .energy = Joules(2.25),
          .peak = Bytes(6),
          .gap = 0.25,
          .schedule = {{Op::kCompute, 0}, {Op::kCopyOut, 0}, {Op::kCompute, 1}, {Op::kCompute, 2}}};
}

TEST(LoadGraphPlan, GivesBackWhatWasWritten) {
  const support::TemporaryFolder folder;
  io::write_file(folder / "p.json", to_json(some_plan(), three_nodes()));
  EXPECT_EQ(load_plan(folder / "p.json", three_nodes()), some_plan());
}

TEST(LoadGraphPlan, ReadsAScheduleAlone) {
  const support::TemporaryFolder folder;
  for (const std::string& text : {to_compact(some_plan().schedule, three_nodes()),
                                  to_text(some_plan().schedule, three_nodes())}) {
    io::write_file(folder / "p.txt", text);
    EXPECT_EQ(load_plan(folder / "p.txt", three_nodes()), Plan{.schedule = some_plan().schedule});
  }
}

// Times that were measured again are never the same.
TEST(LoadGraphPlan, TakesAnyCostsOfTheGraphWhereTheyAreMeasured) {
  const support::TemporaryFolder folder;
  io::write_file(folder / "p.json", to_json(some_plan(), three_nodes()));
  Graph again = three_nodes();
  again.nodes[1].time = Seconds(2);
  EXPECT_EQ(load_plan(folder / "p.json", again, Costs::kAny), some_plan());
  again.name = "other";
  EXPECT_THAT(support::input_error([&] { load_plan(folder / "p.json", again, Costs::kAny); }),
              HasSubstr("give the graph that the plan was made for"));
}

TEST(LoadGraphPlan, RefusesThePlanOfAnotherGraphAndBrokenSchedules) {
  const support::TemporaryFolder folder;
  const auto refusal = [&](const std::string& text) {
    io::write_file(folder / "p", text);
    return support::input_error([&] { load_plan(folder / "p", three_nodes()); });
  };
  Graph other = three_nodes();
  other.nodes[0].bytes = Bytes(7);
  EXPECT_THAT(refusal(to_json(some_plan(), other)),
              HasSubstr("that of three: give the graph that the plan was made for"));
  EXPECT_THAT(refusal("c0 c9"), HasSubstr("must name a node from 0 to 2"));
  EXPECT_THAT(refusal("{\"format\": \"trireme-plan/1\"}"), HasSubstr("trireme-graph-plan/1"));
}

}  // namespace
}  // namespace trireme::graph
