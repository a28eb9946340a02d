// SPDX-License-Identifier: Apache-2.0
#include "solver_store.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace trireme::partition {
namespace {

/// Bytes of tables that wait to be asked again.
constexpr std::size_t kMost = std::size_t{256} << 20;

/// Without what a rank holds whatever it runs, which differs between replicas.
chain::Chain passes_of(chain::Chain chain) {
  for (chain::LayerCost& layer : chain.layers) {
    layer.parameters = layer.gradients = layer.optimizer = Bytes(0);
    layer.frozen = layer.trained = layer.trained_gradients = Bytes(0);
    layer.update = Seconds(0);
  }
  return chain;
}

}  // namespace

std::shared_ptr<solve::StageSolver> SolverStore::solver(
    const chain::Chain& whole, const solve::StageSolver::Options& options) {
  const chain::Chain chain = passes_of(whole);
  const std::string digest = chain::digest(chain);
  const std::lock_guard lock(mutex_);
  const auto place = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.chain == digest && entry.options == options;
  });
  if (place != entries_.end()) {
    std::rotate(place, place + 1, entries_.end());
  } else {
    forget();
    entries_.push_back({digest, options, std::make_shared<solve::StageSolver>(chain, options)});
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
