// How close searched orders of passes come to the bound, and how long the search takes.
//
//   schedule_bench [PART OF A CASE'S NAME] [MOVES PER PASS] [STARTS] [SEED] [RULES]
//
// One unit of room is what a rank keeps of one micro-batch; W's hold all of it. Times are of a
// whole rank: its chunks share them evenly.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/text.h"
#include "trireme/schedule/search.h"

#include <chrono>
#include <cmath>
#include <iostream>
#include <string>

namespace trireme::schedule {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string rounded(double value, double digits) {
  return trireme::to_text(std::round(value * digits) / digits);
}

struct Case {
  int ranks, per_rank, micro_batches;
  double forward, backward, weights;  // of a rank
  double room;                        // in units
  bool is_round_robin = false;

  std::string name() const {
    return concat("p", ranks, is_round_robin ? " loop" : " v", per_rank, " m", micro_batches, " ",
                  forward, ":", backward, ":", weights, " room ", room);
  }

  Workload workload() const {
    constexpr double kUnit = 1 << 20;
    Workload made;
    made.placement = is_round_robin ? round_robin(ranks, per_rank) : v_shaped(ranks, per_rank);
    made.micro_batches = micro_batches;
    const Bytes kept(static_cast<std::int64_t>(kUnit) / per_rank);
    made.chunks.assign(made.placement.size(), {.forward = Seconds(forward / per_rank),
                                               .backward = Seconds(backward / per_rank),
                                               .weights = Seconds(weights / per_rank),
                                               .kept = kept,
                                               .pending = kept});
    made.messages.assign(made.placement.size() - 1, Seconds(0));
    made.room.assign(static_cast<std::size_t>(ranks),
                     Bytes(static_cast<std::int64_t>(room * kUnit + 0.5)));
    return made;
  }
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const double room : {8, 6, 5, 4, 3}) all.push_back({8, 2, 24, 1, 1, 1, room});
  for (const int m : {8, 24})
    for (const double room : {4, 2}) all.push_back({4, 2, m, 1, 1, 1, room});
  for (const int v : {2, 4})
    for (const double room : {8.3, 6.3, 5.3, 4.3, 3.3}) all.push_back({8, v, 24, 1, 1, 1, room});
  for (const int v : {2, 4})
    for (const double room : {8.3, 6.3, 4.3, 3.3}) all.push_back({8, v, 24, 1, 1.09, 0.91, room});
  for (const double room : {8, 4}) all.push_back({8, 2, 64, 1, 1.09, 0.91, room});
  all.push_back({8, 2, 24, 1, 1, 1, 8, true});
  all.push_back({8, 1, 24, 1, 1, 1, 8});
  all.push_back({16, 2, 48, 1, 1.09, 0.91, 8});
  return all;
}

int main_of(const std::vector<std::string>& words) {
  SearchEffort effort;
  if (words.size() > 4) effort.rules = std::stoi(words[4]);
  if (words.size() > 1) effort.moves_per_pass = std::stoi(words[1]);
  if (words.size() > 2) effort.starts = std::stoi(words[2]);
  if (words.size() > 3) effort.seed = std::stoull(words[3]);
  std::vector<std::vector<std::string>> rows{
      {"case", "bound", "list", "in s", "searched", "ratio", "passes", "in s"}};
  for (const Case& one : cases()) {
    if (!words.empty() && one.name().find(words[0]) == std::string::npos) continue;
    const Workload workload = one.workload();
    SearchEffort lists = effort;
    lists.moves_per_pass = 0;
    const double begin = now();
    const auto listed = search(workload, lists);
    const double middle = now();
    const auto found = search(workload, effort);
    const double end = now();
    const double step = found->step.count();
    rows.push_back({one.name(), rounded(found->bound.count(), 1e3),
                    rounded(listed->step.count(), 1e3), rounded(middle - begin, 1e2),
                    rounded(step, 1e3), rounded(step / found->bound.count(), 1e4),
                    concat(static_cast<int>(workload.placement.size()) * 3 * one.micro_batches),
                    rounded(end - middle, 1e2)});
    std::cout << table({rows.front(), rows.back()}) << std::flush;
  }
  std::cout << "\n" << table(rows);
  return 0;
}

}  // namespace
}  // namespace trireme::schedule

int main(int count, char** words) {
  return trireme::schedule::main_of(std::vector<std::string>(words + 1, words + count));
}
