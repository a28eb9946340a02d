// SPDX-License-Identifier: Apache-2.0
#include "trireme/report/chrome_trace.h"

#include "report/samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>

namespace trireme::report {
namespace {

using nlohmann::json;

/// Events of a phase ("X" blocks, "M" names, "C" counters).
std::vector<json> of_phase(const json& trace, const std::string& phase) {
  std::vector<json> events;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == phase) events.push_back(event);
  }
  return events;
}

json trace_of(const plan::Plan& plan, const chain::Chain& chain, const chain::Platform& platform) {
  return json::parse(chrome_trace(timeline(plan, chain, platform), chain));
}

TEST(ChromeTrace, GivesEveryRunInMicroseconds) {
  const chain::Chain chain = four_layers();
  const json trace = trace_of(one_stage(chain, four_layers_in_14_bytes(), Bytes(14)), chain,
                              chain::uniform_platform(1, Bytes(14)));

  std::vector<std::string> names;
  double end = 0;
  for (const json& block : of_phase(trace, "X")) {
    EXPECT_EQ(block["ts"].get<double>(), end) << block;  // compute never waits here
    end = block["ts"].get<double>() + block["dur"].get<double>();
    names.push_back(block["name"]);
  }
  EXPECT_EQ(end, 29e6);
  EXPECT_THAT(names, testing::ElementsAre("0:forward_keep 1", "0:forward_tape 2",
                                          "0:forward_keep 3", "0:forward_tape 4", "0:backward 4",
                                          "0:forward_tape 3", "0:backward 3", "0:backward 2",
                                          "0:forward_tape 1", "0:backward 1"));
}

TEST(ChromeTrace, TellsTheChunkOfEveryLayer) {
  const chain::Chain chain = four_layers();
  const plan::Plan plan = two_chunks_on_two_ranks();
  const simulate::Simulation step = timeline(plan, chain, chain::uniform_platform(2, Bytes(0)));

  const json trace = json::parse(chrome_trace(step, chain, plan::chunks_of_layers(plan)));

  std::set<int> chunks;
  for (const json& block : of_phase(trace, "X")) {
    const int layer = block["args"]["layer"];
    if (layer < 1) continue;
    EXPECT_EQ(block["args"]["chunk"], std::min(layer - 1, 3)) << block;
    chunks.insert(block["args"]["chunk"].get<int>());
  }
  EXPECT_EQ(chunks.size(), 4U);
  EXPECT_FALSE(of_phase(json::parse(chrome_trace(step, chain)), "X")[0]["args"].contains("chunk"));
}

TEST(ChromeTrace, MarksWhatIsRunAgain) {
  const chain::Chain chain = four_layers();
  const json trace = trace_of(one_stage(chain, four_layers_in_14_bytes(), Bytes(14)), chain,
                              chain::uniform_platform(1, Bytes(14)));

  std::vector<std::string> again;
  for (const json& block : of_phase(trace, "X")) {
    if (block["cat"] == "recompute") again.push_back(block["args"]["name"]);
  }
  EXPECT_THAT(again, testing::ElementsAre("c", "a"));
}

TEST(ChromeTrace, NamesRanksAndLanes) {
  const chain::Chain chain = two_layers();
  chain::Platform platform = chain::uniform_platform(2, Bytes(0));
  platform.default_link = {.rate = BytesPerSecond(100), .latency = Seconds(0)};
  const json trace = trace_of(two_stages(2), chain, platform);

  std::set<std::string> names;
  for (const json& event : of_phase(trace, "M")) names.insert(event["args"]["name"]);

  EXPECT_EQ(names, (std::set<std::string>{"rank 0", "rank 1", "compute", "outputs to rank 1",
                                          "gradients to rank 0"}));
}

TEST(ChromeTrace, ShowsMessagesOnTheirWay) {
  const chain::Chain chain = two_layers();
  chain::Platform platform = chain::uniform_platform(2, Bytes(0));
  platform.default_link = {.rate = BytesPerSecond(100), .latency = Seconds(0)};
  const json trace = trace_of(two_stages(1), chain, platform);

  const std::vector<json> blocks = of_phase(trace, "X");
  const auto sent = std::find_if(blocks.begin(), blocks.end(), [](const json& block) {
    return block["name"] == "0:send_output 1";
  });
  ASSERT_NE(sent, blocks.end());
  EXPECT_EQ((*sent)["ts"], 1e6);                         // when the forward of 1 s has ended
  EXPECT_NEAR((*sent)["dur"].get<double>(), 1e5, 1e-6);  // 10 bytes at 100 per second
}

TEST(ChromeTrace, KeepsPredictedAndMeasuredApart) {
  const chain::Chain chain = two_layers();
  const plan::Plan plan = two_stages(2);
  const simulate::Simulation predicted =
      timeline(plan, chain, chain::uniform_platform(2, Bytes(0)));
  simulate::Simulation measured = predicted;
  for (simulate::Event& event : measured.events) event.end = event.end + Seconds(1);

  const json trace = json::parse(chrome_trace(predicted, measured, chain));

  std::map<int, std::string> names;
  std::map<int, int> order;
  for (const json& event : of_phase(trace, "M")) {
    const int process = event["pid"];
    if (event["name"] == "process_name") names[process] = event["args"]["name"];
    if (event["name"] == "process_sort_index") order[event["args"]["sort_index"]] = process;
  }
  std::vector<std::string> from_the_top;
  for (const auto& [place, process] : order) from_the_top.push_back(names[process]);
  EXPECT_THAT(from_the_top,
              testing::ElementsAre("predicted rank 0", "rank 0", "predicted rank 1", "rank 1"));
  std::map<std::string, double> forward;  // layers of 1 s
  for (const json& block : of_phase(trace, "X")) {
    if (block["cat"] == "forward") forward[names[block["pid"]]] = block["dur"];
  }
  EXPECT_EQ(
      forward,
      (std::map<std::string, double>{
          {"predicted rank 0", 1e6}, {"predicted rank 1", 1e6}, {"rank 0", 2e6}, {"rank 1", 2e6}}));
}

TEST(ChromeTrace, CountsTheBytesHeld) {
  const chain::Chain chain = four_layers();
  const json trace = trace_of(one_stage(chain, four_layers_in_14_bytes(), Bytes(14)), chain,
                              chain::uniform_platform(1, Bytes(14)));

  std::int64_t most = 0;
  for (const json& point : of_phase(trace, "C"))
    most = std::max(most, point["args"]["held"].get<std::int64_t>());
  EXPECT_EQ(most, 14);
}

}  // namespace
}  // namespace trireme::report
