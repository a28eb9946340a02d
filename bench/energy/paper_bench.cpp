// The comparisons of POET's paper (Patil et al., ICML 2022), made again: Fig. 3, 4 and 5, Table 3.
//
//   bin/paper_bench [--limit SECONDS] [TABLE...]
//
// TABLE is memory, deadline, capuchin or pofo; all of them without any (run from the tree's root).
// SECONDS (8) bound each search of the solver poet. Every figure is computed now.
//
// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include "trireme/chain/platform.h"
#include "trireme/core/text.h"
#include "trireme/poet/solve.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace trireme::poet {
namespace {

using graph::Problem;

Seconds limit{8};

constexpr const char* kChips[] = {"mkr1000", "nrf52840", "raspberry-pi-4b", "jetson-tx2"};
constexpr const char* kNets[] = {"vgg-16-cifar", "resnet-18-cifar-blocks", "bert-base-blocks"};

Problem problem_on(const std::string& net, const std::string& chip) {
  const chain::Platform platform =
      chain::load_platform(concat("configs/platforms/", chip, ".yaml"));
  const chain::RankSpec& rank = platform.ranks.front();
  const auto lanes = rank.copies_in_turn ? graph::Lanes::kInTurn : graph::Lanes::kBeside;
  return problem_of(graph::load_graph(concat("configs/graphs/", net, ".yaml")), rank, lanes);
}

std::optional<Solution> solved(const char* solver, const Problem& problem, Freedom freedom = {}) {
  freedom.limit = limit;
  const Result result = solve(solver, problem, freedom);
  const auto* const solution = std::get_if<Solution>(&result);
  return solution != nullptr ? std::optional(*solution) : std::nullopt;
}

graph::Outcome unlimited(Problem problem) {
  problem.memory = Bytes(0);
  return replay(problem, keep_all(problem.graph)).outcome;
}

std::string percent(double share) {
  const double rounded = std::round(share * 1e4) / 1e2;
  return concat(rounded >= 0 ? "+" : "", to_text(rounded), " %");
}

// By how much more than keep_all, and how much of that may be needless.
std::string more_energy(const Problem& problem, const std::optional<Solution>& solution) {
  if (!solution) return "none";
  const double energy = solution->outcome.energy().count();
  const double least = unlimited(problem).energy().count();
  const std::string more = percent(energy / least - 1);
  if (solution->is_optimal || solution->solver != "poet") return more;
  return concat(more, " (gap ", percent(1 - solution->bound / energy).substr(1), ")");
}

void print_row(const std::vector<std::string>& cells) {
  std::cout << "| " << join(cells, " | ") << " |" << std::endl;
}

void print_head(const std::vector<std::string>& cells) {
  print_row(cells);
  print_row(std::vector<std::string>(cells.size(), "---"));
}

void memory_table() {
  constexpr int kShares[] = {0, 10, 25, 50, 75};
  std::cout << "\n## Energy against memory (Fig. 3)\n\n"
               "Energy of `poet` over that of keep_all, which needs 100 % of the way from what the "
               "widest node needs.\n\n";
  std::vector<std::string> head{"chip", "net", "keep_all"};
  for (const int share : kShares) head.push_back(concat(share, " %"));
  print_head(head);
  for (const char* const chip : kChips) {
    for (const char* const net : kNets) {
      Problem problem = problem_on(net, chip);
      const graph::Outcome all = unlimited(problem);
      std::vector<std::string> row{chip, net,
                                   concat(to_text(all.energy()), " in ", to_text(all.peak))};
      for (const int share : kShares) {
        limit_memory(problem, share);
        row.push_back(more_energy(problem, solved("poet", problem)));
      }
      print_row(row);
    }
  }
  std::cout
      << "\nWhat differs: the paper compares with DTR on the TX2 (up to 35 % less energy) and "
         "shows joules of its own profiles of operators, which were not published. Chips here "
         "are those of its published table, for the TX2 upper bounds from data sheets; "
         "memories are a share of the way, where the paper takes those of the boards.\n";
}

/// A question without a deadline yet.
struct Case {
  const char *net, *chip;
  int share;
};

void add_deadline_row(Problem& problem, const Case& of, double factor) {
  problem.deadline = unlimited(problem).time * factor;
  const auto both = solved("poet", problem);
  const auto again = solved("poet", problem, {.may_copy = false});
  const auto copies = solved("poet", problem, {.may_recompute = false});
  std::vector<std::string> row{of.net, of.chip, to_text(problem.memory),
                               concat(to_text(factor), "x")};
  for (const auto& solution : {both, again, copies}) {
    row.push_back(more_energy(problem, solution));
  }
  const double all = unlimited(problem).energy().count();
  double least = std::numeric_limits<double>::infinity();
  for (const auto& other : {again, copies}) {
    if (other) least = std::min(least, other->outcome.energy().count());
    row.push_back(both && other ? percent(1 - both->outcome.energy() / other->outcome.energy())
                                : "-");
  }
  const bool is_compared = both && least > all && std::isfinite(least);
  row.push_back(is_compared ? percent(1 - (both->outcome.energy().count() - all) / (least - all))
                            : "-");
  print_row(row);
}

void deadline_table() {
  constexpr Case kCases[] = {{"vgg-16-cifar", "nrf52840", 0},
                             {"vgg-16-cifar", "nrf52840", 20},
                             {"bert-base-blocks", "nrf52840", 5},
                             {"bert-base-blocks", "nrf52840", 25},
                             {"bert-base-blocks", "mkr1000", 5}};
  std::cout
      << "\n## Deadlines, and either technique alone (Fig. 4)\n\n"
         "Energy over that of keep_all; deadlines are factors of its time. *Below*: by how much "
         "less both take than one alone, last of the energy over keep_all's and of the better "
         "one.\n\n";
  print_head({"net", "chip", "memory", "deadline", "both", "recompute only", "copies only",
              "below recompute", "below copies", "overhead below"});
  for (const Case& of : kCases) {
    Problem problem = problem_on(of.net, of.chip);
    limit_memory(problem, of.share);
    for (const double factor : {1.005, 1.02, 1.1, 1.3, 2.0}) add_deadline_row(problem, of, factor);
  }
  std::cout
      << "\nWhat differs: the paper finds up to 40 % less energy than with either technique "
         "alone, on VGG-16 for CIFAR. *None* means that no schedule of that kind meets memory "
         "and deadline, or that none was found within the limit; no percentage shows it. Copies "
         "take time here, in turn with compute; in the paper's program they take none. The VGG "
         "of this tree needs 60 % of keep_all's memory at least, for the values of one "
         "operator; so little is left to choose that BERT is shown, too.\n";
}

void capuchin_table() {
  std::cout << "\n## Against Capuchin (Fig. 5)\n\nResNet-18 for CIFAR, in blocks of operators; "
               "energy and time over those of keep_all.\n\n";
  print_head({"chip", "memory", "capuchin", "its time", "poet", "its time"});
  for (const char* const chip : kChips) {
    Problem problem = problem_on("resnet-18-cifar-blocks", chip);
    const graph::Outcome all = unlimited(problem);
    for (const int share : {75, 50, 25, 10, 0}) {
      limit_memory(problem, share);
      std::vector<std::string> row{chip, to_text(problem.memory)};
      for (const char* const solver : {"capuchin", "poet"}) {
        const auto solution = solved(solver, problem);
        row.push_back(more_energy(problem, solution));
        row.push_back(solution ? percent(solution->outcome.time / all.time - 1) : "");
      }
      print_row(row);
    }
  }
  std::cout
      << "\nWhat differs: the paper has +73 % to +141 % for Capuchin on the Raspberry Pi where "
         "POET stays below +1 %. By the published figures of that board a copy of a value costs "
         "a thousandth of the joules of the convolution that makes it, and Capuchin copies "
         "before it recomputes, so that it cannot take so much more; the paper's profile must "
         "have had other figures, or its Capuchin other rules. Capuchin pays in time: it "
         "believes in hidden copies.\n";
}

/// The least memory with which poet is as fast, and its peak there.
Bytes memory_for(Problem problem, Seconds time) {
  Bytes least = widest(problem.graph).bytes, most = problem.memory;
  for (int k = 0; k < 5 && least < most; ++k) {
    problem.memory = k == 0 ? least : Bytes((least + most).count() / 2);
    const auto solution = solved("poet", problem, {.objective = Objective::kTime});
    const bool is_fast = solution && solution->outcome.time <= time;
    (is_fast ? most : least) = problem.memory;
  }
  return most;
}

void pofo_table() {
  constexpr const char* kNet = "resnet-18-blocks";
  std::cout
      << "\n## Against POFO (Table 3)\n\nResNet-18 for images of 224 x 224, in blocks of "
         "operators, on the Jetson TX2; least time. *Memory for the same*: the least with which "
         "`poet` was found to be as fast as POFO, and by how much less that is than what POFO "
         "holds.\n\n";
  print_head({"memory", "POFO", "poet", "throughput", "memory for the same", "less"});
  Problem problem = problem_on(kNet, "jetson-tx2");
  for (const int share : {75, 50, 25, 10}) {
    limit_memory(problem, share);
    const Freedom fastest{.objective = Objective::kTime};
    const auto pofo = solved("pofo", problem, fastest);
    const auto poet = solved("poet", problem, fastest);
    std::vector<std::string> row{to_text(problem.memory), "none", "none"};
    if (pofo) row[1] = to_text(pofo->outcome.time);
    if (poet) row[2] = to_text(poet->outcome.time);
    if (pofo && poet) {
      row.push_back(percent(pofo->outcome.time / poet->outcome.time - 1));
      problem.memory = pofo->outcome.peak;
      const Bytes least = memory_for(problem, pofo->outcome.time);
      row.push_back(to_text(least));
      row.push_back(percent(1 - static_cast<double>(least.count()) /
                                    static_cast<double>(pofo->outcome.peak.count())));
    }
    row.resize(6);
    print_row(row);
  }
  std::cout
      << "\nWhat differs: the paper has 286 MB and 82 ms for POET where POFO takes 312 MB and "
         "95 ms, 8.3 % less memory and 15 % more throughput, with measured operators and more "
         "memory than this net has for one image. POFO plans blocks between two skips as a "
         "whole here.\n";
}

struct Table {
  std::string name;
  void (*print)();
};

void run(int count, char** words) {
  const std::vector<Table> tables{{"memory", memory_table},
                                  {"deadline", deadline_table},
                                  {"capuchin", capuchin_table},
                                  {"pofo", pofo_table}};
  std::vector<std::string> names;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--limit" && i + 1 < count) {
      limit = Seconds(std::atof(words[++i]));
    } else {
      names.push_back(word);
    }
  }
  for (const Table& table : tables) {
    const bool is_wanted =
        names.empty() || std::find(names.begin(), names.end(), table.name) != names.end();
    if (is_wanted) table.print();
  }
}

}  // namespace
}  // namespace trireme::poet

int main(int count, char** words) {
  trireme::poet::run(count, words);
}
