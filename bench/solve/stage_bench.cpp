// How long the stages of a pipeline take to plan: every question that a search for cuts asks, and
// the program of one stage, with and without copies.
//
// SPDX-License-Identifier: Apache-2.0
#include "trireme/solve/stage.h"

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <variant>

namespace trireme::solve {
namespace {

// `period` layers repeat between two that differ; with period >= layers all differ. Tapes are three
// to four outputs.
chain::Chain chain_of(int layers, int period) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> time(1e-3, 5e-3);
  std::uniform_int_distribution<std::int64_t> size(1 << 20, 4 << 20);
  chain::Chain chain{.name = "bench", .input = Bytes(1 << 20), .layers = {}};
  for (int i = 0; i < layers; ++i) {
    if (i > period && i + 1 < layers) {
      chain.layers.push_back(chain.layers[static_cast<std::size_t>(i - period)]);
      continue;
    }
    chain::LayerCost cost;
    cost.forward = Seconds(time(random));
    cost.backward = 2 * cost.forward.count() * Seconds(1);
    cost.output = Bytes(size(random));
    cost.tape = 3 * cost.output + Bytes(size(random));
    cost.forward_transient = cost.tape_transient = Bytes(size(random) / 4);
    cost.backward_transient = Bytes(4 << 20);
    chain.layers.push_back(cost);
  }
  return chain;
}

Bytes share_of_tapes(const chain::Chain& chain, std::int64_t percent) {
  Bytes all = chain.input;
  for (const chain::LayerCost& layer : chain.layers) all += layer.tape;
  return all * percent / 100;
}

// All stages of up to twice an even share of the work, for every number in flight.
void questions(benchmark::State& state) {
  const chain::Chain chain =
      chain_of(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  const int stages = static_cast<int>(state.range(2));
  const Bytes memory = share_of_tapes(chain, state.range(4));
  Seconds work;
  for (const chain::LayerCost& layer : chain.layers) work += layer.forward + layer.backward;
  double asked = 0, size = 0;
  for (auto _ : state) {
    asked = 0;
    StageSolver solver(chain,
                       {.largest_memory = memory, .slots = static_cast<int>(state.range(3))});
    for (int in_flight = 1; in_flight <= stages; ++in_flight) {
      for (int last = 1; last <= chain.length(); ++last) {
        Seconds sum;
        for (int first = last; first >= 1; --first, ++asked) {
          sum += chain.layer(first).forward + chain.layer(first).backward;
          if (stages * sum > 2 * work) break;
          benchmark::DoNotOptimize(solver.least_time({.first_layer = first,
                                                      .last_layer = last,
                                                      .memory = memory,
                                                      .in_flight = in_flight,
                                                      .link = {}}));
        }
      }
    }
    size = static_cast<double>(solver.size());
  }
  state.counters["asked"] = asked;
  state.counters["MB"] = size / 1e6;
}

// The program of the first of four equal stages with four in flight, in a share of what keeping
// everything takes. The link moves `rate` percent of its tapes in the time of its layers.
void program(benchmark::State& state) {
  const chain::Chain chain =
      chain_of(static_cast<int>(state.range(0)), static_cast<int>(state.range(0)));
  StageProblem problem{.first_layer = 1,
                       .last_layer = chain.length() / 4,
                       .memory = share_of_tapes(chain, state.range(1)),
                       .in_flight = 4,
                       .link = {}};
  Seconds work;
  Bytes tapes;
  for (int i = 1; i <= problem.last_layer; ++i) {
    work += chain.layer(i).forward + chain.layer(i).backward;
    tapes += chain.layer(i).tape;
  }
  if (state.range(2) > 0) {
    const BytesPerSecond rate(0.01 * static_cast<double>(state.range(2)) *
                              static_cast<double>(tapes.count()) / work.count());
    problem.link = HostLink{rate, rate, 8 * tapes};
  }
  StageSolver solver(chain, {.largest_memory = problem.memory});
  double slowdown = 0, moved = 0;
  for (auto _ : state) {
    const auto result = solver.solve(problem);
    if (const auto* solution = std::get_if<StageSolution>(&result)) {
      slowdown = solution->time() / work;
      moved = solution->moved / tapes;
    }
  }
  state.counters["slowdown"] = slowdown;
  state.counters["moved"] = moved;
}

// Layers, layers that differ, stages, slots, memory in percent of all tapes.
BENCHMARK(questions)
    ->Unit(benchmark::kMillisecond)
    ->Args({98, 1, 16, 500, 20})
    ->Args({194, 2, 16, 500, 20})
    ->Args({339, 339, 8, 500, 20})
    ->Args({400, 4, 64, 500, 5})
    ->Args({400, 400, 64, 200, 5});

// Layers of four stages, memory in percent of all tapes, rate.
BENCHMARK(program)
    ->Unit(benchmark::kMillisecond)
    ->Args({48, 40, 0})
    ->Args({48, 40, 30})
    ->Args({48, 20, 0})
    ->Args({48, 20, 30})
    ->Args({200, 20, 0})
    ->Args({200, 20, 30});

}  // namespace
}  // namespace trireme::solve
