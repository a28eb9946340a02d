// How long the stages of a pipeline take to plan: every question that a search for cuts asks, and
// the program of one stage, with and without copies.
//
// SPDX-License-Identifier: Apache-2.0
#include "random_chain.h"

#include "trireme/solve/stage.h"

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <variant>
#include <vector>

namespace trireme::solve {
namespace {

// `period` layers repeat between two that differ; with period >= layers all differ.
chain::Chain chain_of(int layers, int period) {
  if (period >= layers) return repeating_chain(layers, layers);
  const std::vector<chain::LayerCost> kinds = random_layers(period + 2);
  chain::Chain chain{.name = "bench", .input = Bytes(1 << 20), .layers = {kinds.front()}};
  for (int i = 1; i + 1 < layers; ++i)
    chain.layers.push_back(kinds[static_cast<std::size_t>(1 + (i - 1) % period)]);
  chain.layers.push_back(kinds.back());
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
          benchmark::DoNotOptimize(solver.least_time(
              {.layers = {first, last}, .memory = memory, .in_flight = in_flight, .link = {}}));
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
  StageProblem problem{.layers = {1, chain.length() / 4},
                       .memory = share_of_tapes(chain, state.range(1)),
                       .in_flight = 4,
                       .link = {}};
  Seconds work;
  Bytes tapes;
  for (int i = 1; i <= problem.layers.last; ++i) {
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
