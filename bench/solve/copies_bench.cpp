// How long planning with copies takes, and what it gains: time of the plan over that of the layers,
// on chains where every layer differs. The link moves `rate` percent of what keeping everything
// holds in the time of the forwards.
//
// SPDX-License-Identifier: Apache-2.0
#include "random_chain.h"

#include "trireme/solve/solve.h"

#include <benchmark/benchmark.h>

#include <cstdint>
#include <string_view>
#include <variant>

namespace trireme::solve {
namespace {

void plan(benchmark::State& state, std::string_view solver) {
  const auto layers = static_cast<int>(state.range(0));
  const chain::Chain chain = repeating_chain(layers, layers);
  Bytes tapes = chain.input;
  Seconds forwards, work;
  for (const chain::LayerCost& layer : chain.layers) {
    tapes += layer.tape;
    forwards += layer.forward;
    work += layer.forward + layer.backward;
  }
  const BytesPerSecond rate(0.01 * static_cast<double>(state.range(3)) *
                            static_cast<double>(tapes.count()) / forwards.count());
  const Problem problem{.chain = &chain,
                        .first_layer = 1,
                        .last_layer = chain.length(),
                        .budget = tapes * state.range(2) / 100,
                        .link = HostLink{rate, rate, 2 * tapes},
                        .slots = static_cast<int>(state.range(1))};
  double slowdown = 0, moved = 0;
  for (auto _ : state) {
    const Result result = solve(solver, problem);
    if (const auto* solution = std::get_if<Solution>(&result)) {
      slowdown = solution->time / work;
      moved = solution->moved / tapes;
    }
  }
  state.counters["slowdown"] = slowdown;
  state.counters["moved"] = moved;
}

// Layers, slots, budget and rate in percent.
#define TRIREME_CHAINS \
  Args({20, 50, 40, 30})->Args({50, 50, 25, 30})->Args({100, 50, 25, 30})->Args({100, 500, 25, 30})
BENCHMARK_CAPTURE(plan, rotor, "rotor")->TRIREME_CHAINS->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan, capuchin, "capuchin")->TRIREME_CHAINS->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan, offload, "offload")->TRIREME_CHAINS->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan, pofo, "pofo")->TRIREME_CHAINS->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan, pofo_free, "pofo free")->TRIREME_CHAINS->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace trireme::solve
