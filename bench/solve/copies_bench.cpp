// How long planning with copies takes, and what it gains: time of the plan over that of the layers,
// on chains where every layer differs. The link moves `rate` percent of what keeping everything
// holds in the time of the forwards.
//
// SPDX-License-Identifier: Apache-2.0
#include "trireme/solve/solve.h"

#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <string_view>
#include <variant>

namespace trireme::solve {
namespace {

// Tapes are three to four outputs, backwards twice as long as forwards.
chain::Chain random_layers(int layers) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> time(1e-3, 5e-3);
  std::uniform_int_distribution<std::int64_t> size(1 << 20, 4 << 20);
  chain::Chain chain{.name = "bench", .input = Bytes(1 << 20), .layers = {}};
  for (int i = 0; i < layers; ++i) {
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

void plan(benchmark::State& state, std::string_view solver) {
  const chain::Chain chain = random_layers(static_cast<int>(state.range(0)));
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
