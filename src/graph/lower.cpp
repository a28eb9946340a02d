// SPDX-License-Identifier: Apache-2.0
#include "trireme/graph/lower.h"

#include "trireme/core/error.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace trireme::graph {
namespace {

using program::Program;

/// How a value is in memory.
enum class Held {
  kNot,
  kAlone,    ///< no copy of it is under way, none is needed any more
  kLeaving,  ///< its copy out was begun
  kArriving,
  kCopied,        ///< it was copied in, and will be again; not awaited yet, or awaited
  kArrivingLast,  ///< it was copied in for the last time, and not awaited yet
};

/// Writes the actions of one micro-batch.
class Lowering {
 public:
  Lowering(const Graph& graph, const Schedule& schedule, int micro_batch,
           std::vector<program::Action>& into);
  void run(const Action& action);
  void end();

 private:
  void compute(int node);
  void copy_out(int node);
  void copy_in(int node);
  void drop(int node);
  void await(int node);
  void emit(program::Op op, int node) { into_.push_back({op, node, micro_batch_}); }
  Held& held(int node) { return held_[static_cast<std::size_t>(node)]; }
  int& copies_in(int node) { return copies_in_[static_cast<std::size_t>(node)]; }

  const Graph& graph_;
  int micro_batch_;
  int loss_;
  std::vector<program::Action>& into_;
  std::vector<Held> held_;
  std::vector<int> copies_in_;  ///< by node, still to come
};

/// The last forward node.
int loss_of(const Graph& graph);
/// A program of one rank without actions.
Program program_of(int nodes, int micro_batches);

}  // namespace

Program lower(const Schedule& schedule, const Graph& graph, int micro_batches) {
  Program program = program_of(graph.size() - 1, micro_batches);
  std::vector<program::Action>& actions = program.ranks.front();
  for (int micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
    Lowering lowering(graph, schedule, micro_batch, actions);
    for (const Action& action : schedule) lowering.run(action);
    lowering.end();
  }
  for (const program::Op op :
       {program::Op::kReduceGradients, program::Op::kClip, program::Op::kStep})
    actions.push_back({op, 0, 0});
  return program;
}

Program forwards(const std::vector<std::vector<int>>& inputs, int micro_batches) {
  const int loss = static_cast<int>(inputs.size());
  std::vector<int> last_use(inputs.size() + 1);
  for (int node = 1; node <= loss; ++node)
    for (const int input : inputs[static_cast<std::size_t>(node) - 1])
      last_use[static_cast<std::size_t>(input)] = node;
  Program program = program_of(loss, micro_batches);
  std::vector<program::Action>& actions = program.ranks.front();
  for (int micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
    const auto emit = [&](program::Op op, int node) { actions.push_back({op, node, micro_batch}); };
    emit(program::Op::kLoadInput, 0);
    emit(program::Op::kLoadTarget, loss);
    for (int node = 1; node <= loss; ++node) {
      emit(program::Op::kCompute, node);
      for (const int input : inputs[static_cast<std::size_t>(node) - 1])
        if (last_use[static_cast<std::size_t>(input)] == node) emit(program::Op::kDrop, input);
    }
    emit(program::Op::kReadLoss, loss);
  }
  return program;
}

namespace {

Lowering::Lowering(const Graph& graph, const Schedule& schedule, int micro_batch,
                   std::vector<program::Action>& into)
    : graph_(graph),
      micro_batch_(micro_batch),
      loss_(loss_of(graph)),
      into_(into),
      held_(graph.nodes.size()),
      copies_in_(graph.nodes.size()) {
  for (const Action& action : schedule)
    if (action.op == Op::kCopyIn) ++copies_in(action.node);
}

void Lowering::run(const Action& action) {
  switch (action.op) {
    case Op::kCompute:
      return compute(action.node);
    case Op::kCopyOut:
      return copy_out(action.node);
    case Op::kCopyIn:
      return copy_in(action.node);
    case Op::kDrop:
      return drop(action.node);
  }
}

void Lowering::compute(int node) {
  for (const int input : graph_.node(node).inputs) {
    ensure(input != loss_, "no node reads the loss");
    await(input);
  }
  held(node) = Held::kAlone;
  if (node == 0) return emit(program::Op::kLoadInput, 0);
  if (node == loss_) emit(program::Op::kLoadTarget, node);
  emit(graph_.node(node).is_backward ? program::Op::kGradient : program::Op::kCompute, node);
  if (node != loss_) return;
  emit(program::Op::kReadLoss, node);
  held(node) = Held::kNot;
}

void Lowering::copy_out(int node) {
  if (copies_in(node) == 0) return;
  await(node);
  emit(program::Op::kOffload, node);
  held(node) = Held::kLeaving;
}

void Lowering::copy_in(int node) {
  emit(program::Op::kPrefetch, node);
  emit(program::Op::kCopyIn, node);
  held(node) = --copies_in(node) == 0 ? Held::kArrivingLast : Held::kArriving;
}

void Lowering::drop(int node) {
  await(node);
  switch (std::exchange(held(node), Held::kNot)) {
    case Held::kLeaving:
      return emit(program::Op::kRelease, node);
    case Held::kCopied:
      return emit(program::Op::kFree, node);
    case Held::kAlone:
      return emit(program::Op::kDrop, node);
    default:
      ensure(node == loss_, "what is dropped is in memory");
  }
}

void Lowering::await(int node) {
  if (held(node) == Held::kArriving) {
    emit(program::Op::kAwaitCopy, node);
    held(node) = Held::kCopied;
  } else if (held(node) == Held::kArrivingLast) {
    emit(program::Op::kAwait, node);
    held(node) = Held::kAlone;
  }
}

void Lowering::end() {
  for (int node = 0; node < graph_.size(); ++node)
    if (held(node) != Held::kNot) drop(node);
}

int loss_of(const Graph& graph) {
  int loss = 0;
  for (int node = 0; node < graph.size(); ++node)
    if (!graph.node(node).is_backward) loss = node;
  return loss;
}

Program program_of(int nodes, int micro_batches) {
  return {.layers = nodes,
          .micro_batches = micro_batches,
          .rank_of_layer = std::vector<int>(static_cast<std::size_t>(nodes) + 1, 0),
          .ranks = {{}}};
}

}  // namespace
}  // namespace trireme::graph
