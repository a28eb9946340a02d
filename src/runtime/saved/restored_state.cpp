// Restores a checkpoint's state on the ranks of another run.
// SPDX-License-Identifier: Apache-2.0
#include "saved/checkpoint_reader.h"
#include "saved/frozen_weights.h"
#include "saved/gathered_names.h"
#include "saved/saved_state.h"

#include "trireme/comm/heartbeat.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <optional>
#include <utility>

namespace trireme::runtime {

std::vector<SavedState::Named> SavedState::wanted(const checkpoint::Manifest& manifest) const {
  std::vector<Named> tensors;
  const std::vector<StageParameter>& parameters = parts_.stage.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const StageParameter& parameter = parameters[i];
    if (parameter.shares_value) continue;
    const auto tie = manifest.ties.find(parameter.tie);
    const std::string& name = tie == manifest.ties.end() ? parameter.name : tie->second;
    name_parts(i, name, tensors);
  }
  for (const int number : parts_.stage.layers()) {
    for (const model::Buffer& buffer : parts_.stage.layer(number).buffers()) {
      if (!buffer.is_saved) continue;
      const std::string name = concat(kBuffers, parts_.stage.layer_name(number), '/', buffer.name);
      const std::string own = of_replica(parts_.position.replica, name);
      // A replica that the checkpoint does not have begins with the first one's buffers.
      tensors.push_back(
          {.name = manifest.tensors.contains(own) ? own : name, .value = buffer.value});
    }
  }
  return tensors;
}

SavedState::Restored SavedState::restore(const std::filesystem::path& checkpoint,
                                         const config::JobSpec& job) {
  std::optional<CheckpointReader> source;
  std::vector<Named> tensors;
  LossLog::History history;
  std::string taken, as_begun;
  std::size_t next = 0;
  Optimizer::Access state(parts_.optimizer);
  const auto piece = [&] {
    if (!source) {
      source.emplace(checkpoint);
      tensors = wanted(source->manifest());
      history = {.losses = source->numbers<float>(kLosses),
                 .means = source->numbers<double>(kMeans)};
      source->require_steps(history.means.size());
    }
    if (next == tensors.size()) return false;
    const Named& one = tensors[next++];
    const auto read = [&](const at::Tensor& value) {
      try {
        source->read(one.name, value);
      } catch (const InputError&) {
        if (!is_frozen(one) ||
            !read_as_begun(job, parts_.stage, parts_.stage.parameters()[one.parameter], *source,
                           one.name, value))
          throw;
        as_begun += one.name + '\n';
      }
    };
    if (one.value.defined()) {
      read(one.value);
    } else {
      state.change(one.parameter, one.which, read);
    }
    taken += one.name + '\n';
    return true;
  };
  comm::run_pieces_with_heartbeat(parts_.channel, piece, "reading of a checkpoint");

  source->require_nothing_left(gathered_names(parts_.channel, taken, "tensors of a checkpoint"));
  parts_.losses.resume_after(std::move(history));
  parts_.optimizer.resume_after(source->manifest().step);
  Restored restored{
      .steps = source->manifest().step,
      .as_begun = gathered_names(parts_.channel, as_begun, "frozen weights read again")};
  restored.as_begun.erase("");  // after the last line end
  return restored;
}

}  // namespace trireme::runtime
