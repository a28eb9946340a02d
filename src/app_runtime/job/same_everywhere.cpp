// SPDX-License-Identifier: Apache-2.0
#include "job/same_everywhere.h"

#include "trireme/comm/heartbeat.h"
#include "trireme/core/digest.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace trireme::app {
namespace {

constexpr std::size_t kDigits = 32;  ///< of a digest

/// What a rank has read, as digests in this order: job, data, what the chain takes, its code; then
/// of each layer its description and its values.
struct Read {
  explicit Read(std::string digests) : text(std::move(digests)) {}
  Read(const config::JobSpec& job, const model::ChainModel& model, const std::string& data);

  std::string at(std::size_t place) const { return text.substr(place * kDigits, kDigits); }
  std::size_t layers() const { return (text.size() / kDigits - kOfLayers) / 2; }
  std::string sketch(std::size_t layer) const { return at(kOfLayers + 2 * layer); }
  std::string values(std::size_t layer) const { return at(kOfLayers + 2 * layer + 1); }

  static constexpr std::size_t kJob = 0, kData = 1, kTakes = 2, kCode = 3, kOfLayers = 4;
  std::string text;
};

Read::Read(const config::JobSpec& job, const model::ChainModel& model, const std::string& data) {
  std::string takes = concat(model.name, ' ', static_cast<int>(model.input), ' ', model.classes,
                             ' ', model.takes_masked_targets);
  for (const std::int64_t size : model.example_sizes()) takes += concat(' ', size);
  for (const std::string& one : {config::to_yaml(job), data, takes, model.code})
    text += digest(one);
  for (const model::LayerRecipe& layer : model.layers) {
    text += digest(concat(layer.name, '\n', layer.sketch));
    text += digest(layer.given_values ? layer.given_values() : "");
  }
}

/// How the inputs of rank `other` differ from `mine`, those of rank 0, which are not the same.
std::string difference(const Read& mine, const Read& theirs, std::ptrdiff_t other,
                       const model::ChainModel& model) {
  const std::string read = concat("rank 0 and rank ", other, " read different ");
  const std::string built = concat("the chains of rank 0 and rank ", other, " differ");
  if (mine.at(Read::kJob) != theirs.at(Read::kJob))
    return concat(read, "jobs: every rank must see the same files");
  if (mine.at(Read::kTakes) != theirs.at(Read::kTakes))
    return concat(built, " in their name, or in the sizes of what they take: every rank must ",
                  "build the same one");
  if (mine.layers() != theirs.layers())
    return concat(built, " in their number of layers, ", mine.layers(), " and ", theirs.layers(),
                  ": every rank must build the same one");
  const auto named = [&](std::size_t i) {
    const std::string name = i < model.layers.size() ? model.layers[i].name : "";
    return concat("layer ", i + 1, " (", name, ")");
  };
  for (std::size_t i = 0; i < mine.layers(); ++i)
    if (mine.sketch(i) != theirs.sketch(i))
      return concat(built, " in ", named(i), ": every rank must build the same module, of the ",
                    "same sizes and attributes");
  if (mine.at(Read::kCode) != theirs.at(Read::kCode))
    return concat(built, " in the files or versions of their code: every rank must see the same");
  for (std::size_t i = 0; i < mine.layers(); ++i)
    if (mine.values(i) != theirs.values(i))
      return concat(named(i), " begins with other values on rank ", other, " than on rank 0: call ",
                    "torch.manual_seed() on every rank before modules are built, or hand over ",
                    "callables, whose values are drawn from train.seed (docs/python.md)");
  return concat(read, "data: every rank must see the same files, and the same elements");
}

}  // namespace

void require_same_everywhere(comm::Channel& channel, const config::JobSpec& job,
                             const model::ChainModel& model, const std::string& data) {
  if (channel.size() == 1) return;
  const std::vector<int> all = comm::everyone(channel);
  std::string mine;
  const auto look = [&] { mine = Read(job, model, data).text; };
  comm::run_with_heartbeat(channel, look, "digests of the chain");
  const std::string first = comm::broadcast(channel, all, mine, "comparison of jobs");
  const std::vector<std::string> differing =
      comm::all_gather(channel, all, mine == first ? std::string() : mine, "comparison of jobs");
  // Every rank reports the same rank, so that whichever is heard first says the same.
  const auto other = std::find_if(differing.begin(), differing.end(),
                                  [](const std::string& one) { return !one.empty(); });
  if (other == differing.end()) return;
  throw InputError(difference(Read(first), Read(*other), other - differing.begin(), model));
}

}  // namespace trireme::app
