// SPDX-License-Identifier: Apache-2.0
#include "solver_store.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace trireme::partition {
namespace {

/// Bytes of tables that wait to be asked again.
constexpr std::size_t kMost = std::size_t{256} << 20;

/// Without names, and without what a rank holds whatever it runs, which differs between replicas.
chain::Chain passes_of(chain::Chain chain) {
  chain.name.clear();
  for (chain::LayerCost& layer : chain.layers) {
    layer.name.clear();
    layer.parameters = layer.gradients = layer.optimizer = Bytes(0);
    layer.frozen = layer.trained = layer.trained_gradients = Bytes(0);
    layer.update = Seconds(0);
  }
  return chain;
}

}  // namespace

std::shared_ptr<solve::StageSolver> SolverStore::solver(
    const chain::Chain& whole, const solve::StageSolver::Options& options) {
  chain::Chain chain = passes_of(whole);
  const std::lock_guard lock(mutex_);
  const auto place = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.options == options && entry.chain == chain;
  });
  if (place != entries_.end()) {
    std::rotate(place, place + 1, entries_.end());
  } else {
    forget();
    auto solver = std::make_shared<solve::StageSolver>(chain, options);
    entries_.push_back({std::move(chain), options, std::move(solver)});
  }
  return entries_.back().solver;
}

void SolverStore::forget() {
  std::size_t total = 0;
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    if (entry->solver.use_count() > 1) continue;
    total += entry->solver->size();
    if (total > kMost) entry->solver.reset();
  }
  std::erase_if(entries_, [](const Entry& entry) { return entry.solver == nullptr; });
}

std::shared_ptr<SolverStore> store_of(const Question& question) {
  return question.solvers ? question.solvers : std::make_shared<SolverStore>();
}

Question with_store(Question question) {
  question.solvers = store_of(question);
  return question;
}

}  // namespace trireme::partition
