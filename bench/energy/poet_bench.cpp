// How large the programs of the solver poet are, how long HiGHS takes on one core, and how long it
// takes on POET's original form.
//
//   bin/poet_bench [--limit SECONDS] [--share PERCENT] [--original] [--platform FILE] [GRAPH...]
//
// A graph is a file or "bert-24"; without any, four nets on a Cortex-M4F (run from the tree's
// root). Memory is PERCENT (50) of the way from what the widest node needs to what keeping
// everything takes. Columns and rows are those of the program before anything is left out; CPU is
// the time for which the search computed, where others use the machine, too.
//
// SPDX-License-Identifier: Apache-2.0
#include "memory.h"
#include "model.h"
#include "original.h"
#include "poet/graphs.h"
#include "solvers.h"

#include "trireme/chain/platform.h"
#include "trireme/core/text.h"
#include "trireme/poet/solve.h"

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <string>
#include <vector>

namespace trireme::poet {
namespace {

struct Options {
  Seconds limit{60};
  int share = 50;
  bool original = false;
  std::string platform = "configs/platforms/nrf52840.yaml";
  std::vector<std::string> files;
};

using Row = std::vector<std::string>;

graph::Graph bert24();

Options read_options(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const bool has_value = i + 1 < count;
    if (word == "--original") {
      options.original = true;
    } else if (word == "--limit" && has_value) {
      options.limit = Seconds(std::atof(words[++i]));
    } else if (word == "--share" && has_value) {
      options.share = std::atoi(words[++i]);
    } else if (word == "--platform" && has_value) {
      options.platform = words[++i];
    } else {
      options.files.push_back(word);
    }
  }
  const std::string folder = "configs/graphs/";
  if (options.files.empty())
    options.files = {folder + "vgg-16-cifar.yaml", "bert-24",
                     folder + "resnet-18-cifar-blocks.yaml", folder + "resnet-18-cifar.yaml"};
  return options;
}

std::vector<graph::Graph> graphs(const Options& options) {
  std::vector<graph::Graph> graphs;
  for (const std::string& file : options.files) {
    graphs.push_back(file == "bert-24" ? bert24() : graph::load_graph(file));
  }
  return graphs;
}

// A chain of 24 blocks as in BERT-large, for 128 tokens.
graph::Graph bert24() {
  constexpr double kTokens = 128, kWidth = 1024;
  std::vector<Layer> blocks(
      25, {.bytes = Bytes(128 * 1024 * 4),
           .cost = 24 * kTokens * kWidth * kWidth + 4 * kTokens * kTokens * kWidth});
  blocks.front().cost = 3 * kTokens * kWidth;
  graph::Graph graph = chain_with_backward(Bytes(128 * 4), blocks);
  graph.name = "bert-24";
  return graph;
}

std::string gap_of(double best, double bound) {
  return concat(to_text(std::round(1e5 * (best - bound) / best) / 1e3), " %");
}

void add_poet(Row& row, const graph::Problem& problem, const Options& options) {
  const Model model = model_of(problem, {});
  row.push_back(to_text(static_cast<double>(model.milp.columns.size())));
  row.push_back(to_text(static_cast<double>(model.milp.rows())));
  const std::clock_t start = std::clock();
  const Result result = solve("poet", problem, {.limit = options.limit});
  const Seconds used(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  if (const auto* const solution = std::get_if<Solution>(&result)) {
    row.push_back(to_text(solution->took));
    row.push_back(to_text(used));
    row.push_back(gap_of(solution->outcome.energy().count(), solution->bound));
    row.push_back(to_text(solution->outcome.energy()));
  } else {
    row.insert(row.end(), {"", to_text(used), "none", std::get<Infeasible>(result).where});
  }
}

void add_original(Row& row, const graph::Problem& problem, const Options& options) {
  const Milp milp = original_form(problem);
  const auto start = std::chrono::steady_clock::now();
  const MilpResult result = solve_milp(milp, {}, {options.limit, 1e-6});
  row.push_back(to_text(static_cast<double>(milp.columns.size())));
  row.push_back(to_text(to_seconds(std::chrono::steady_clock::now() - start)));
  row.push_back(result.columns.empty() ? "none" : gap_of(result.objective, result.bound));
}

void run(const Options& options) {
  std::vector<Row> rows{
      {"graph", "nodes", "memory", "columns", "rows", "time", "CPU", "gap", "energy"}};
  if (options.original) rows[0].insert(rows[0].end(), {"original: columns", "time", "gap"});
  const chain::Platform platform = chain::load_platform(options.platform);
  for (const graph::Graph& graph : graphs(options)) {
    graph::Problem problem = problem_of(graph, platform.ranks.front(), graph::Lanes::kInTurn);
    limit_memory(problem, options.share);
    Row row{problem.graph.name, std::to_string(problem.graph.size()), to_text(problem.memory)};
    add_poet(row, problem, options);
    if (options.original) add_original(row, problem, options);
    rows.push_back(row);
    std::cerr << join(row, "  ") << '\n';
  }
  std::cout << table(rows);
}

}  // namespace
}  // namespace trireme::poet

int main(int count, char** words) {
  trireme::poet::run(trireme::poet::read_options(count, words));
}
