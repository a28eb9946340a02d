// How long planning takes: table and plan of one budget, on chains where every layer differs (the
// worst case) and on chains of equal blocks (a transformer).
//
// SPDX-License-Identifier: Apache-2.0
#include "random_chain.h"

#include "trireme/solve/solve.h"
#include "trireme/solve/tables.h"

#include <benchmark/benchmark.h>

#include <string_view>

namespace trireme::solve {
namespace {

// A share of what keeping everything needs.
Bytes budget_of(const chain::Chain& chain, double share) {
  Bytes all = chain.input;
  for (const chain::LayerCost& layer : chain.layers) all += layer.tape;
  return Bytes(static_cast<std::int64_t>(share * static_cast<double>(all.count())));
}

void plan(benchmark::State& state, std::string_view solver) {
  const int layers = static_cast<int>(state.range(0));
  const chain::Chain chain = repeating_chain(layers, static_cast<int>(state.range(2)));
  const Problem problem{.chain = &chain,
                        .first_layer = 1,
                        .last_layer = layers,
                        .budget = budget_of(chain, 0.01 * static_cast<double>(state.range(3))),
                        .link = {},
                        .slots = static_cast<int>(state.range(1))};
  double time = 0, peak = 0;
  for (auto _ : state) {
    const Result result = solve(solver, problem);
    if (const auto* solution = std::get_if<Solution>(&result)) {
      time = solution->time.count();
      peak = solution->peak / problem.budget;
    }
  }
  state.counters["step_s"] = time;
  state.counters["of_budget"] = peak;
}

void tables(benchmark::State& state, Freedom freedom, int threads) {
  const int layers = static_cast<int>(state.range(0)), slots = static_cast<int>(state.range(1));
  const chain::Chain chain = repeating_chain(layers, static_cast<int>(state.range(2)));
  const Bytes budget = budget_of(chain, 0.01 * static_cast<double>(state.range(3)));
  double size = 0;
  for (auto _ : state) {
    const Tables made(
        chain, 1, layers,
        {.freedom = freedom, .unit = budget / slots, .top = slots, .threads = threads});
    size = static_cast<double>(made.size());
  }
  state.counters["MB"] = size / 1e6;
}

// Layers, slots, layers that differ, budget in percent of keeping everything.
void chains(benchmark::internal::Benchmark* cases) {
  cases->Unit(benchmark::kMillisecond)
      ->Args({50, 500, 50, 25})
      ->Args({339, 500, 339, 25})
      ->Args({339, 500, 339, 50})
      ->Args({339, 500, 12, 25});
}

void long_chain(benchmark::internal::Benchmark* cases) {
  cases->Unit(benchmark::kMillisecond)->UseRealTime()->Args({1000, 250, 1000, 25});
}

BENCHMARK_CAPTURE(plan, rotor, "rotor")->Apply(chains);
BENCHMARK_CAPTURE(plan, rotor_free, "rotor_free")->Apply(chains);
BENCHMARK_CAPTURE(tables, rotor, Freedom::kInputStays, 1)->Apply(chains);
BENCHMARK_CAPTURE(tables, rotor_free, Freedom::kInputMayLeave, 1)->Apply(chains);
BENCHMARK_CAPTURE(tables, rotor_long, Freedom::kInputStays, 1)->Apply(long_chain);
BENCHMARK_CAPTURE(tables, rotor_long_on_two_threads, Freedom::kInputStays, 2)->Apply(long_chain);

}  // namespace
}  // namespace trireme::solve
