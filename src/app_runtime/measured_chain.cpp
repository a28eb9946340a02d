// SPDX-License-Identifier: Apache-2.0
#include "measured_chain.h"

#include "own_folder.h"
#include "signals.h"

#include "trireme/comm/rounds.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/profile/stored.h"

#include <optional>
#include <span>

namespace trireme::app {
namespace {

/// One chain of all ranks' shares, which timed different layers.
chain::Chain sum_of(const std::vector<std::string>& shares) {
  std::optional<chain::Chain> sum;
  for (const auto& share : shares) {
    if (share.empty()) continue;  // that rank measured nothing
    const chain::Chain chain = chain::read_chain(io::parse(share, "chain"));
    if (!sum) {
      sum = chain;
      continue;
    }
    for (std::size_t i = 0; i < chain.layers.size(); ++i) {
      sum->layers[i].forward += chain.layers[i].forward;
      sum->layers[i].backward += chain.layers[i].backward;
      sum->layers[i].update += chain.layers[i].update;
      if (chain.layers[i].retape) sum->layers[i].retape->time += chain.layers[i].retape->time;
    }
  }
  return *sum;
}

void say(const profile::Stored& stored, const std::string& how, std::ostream& out) {
  out << "profile: " << stored.chain.length() << " layers, " << how << " (" << stored.file.string()
      << ")\n";
}

}  // namespace

std::filesystem::path profiles_folder(const config::JobSpec& job) {
  return plain_name(job.report.directory).parent_path() / ".profiles";
}

profile::MeasureOptions measure_options(const RankContext& context) {
  const device::Place& place = context.device.place();
  return {.threads = context.threads,
          .stop_requested = stop_requested,
          .place = place,
          .memory = place.device().is_cpu() ? nullptr : &context.device.memory()};
}

chain::Chain measured_chain(const config::JobSpec& job, const model::ChainModel& model,
                            const RankContext& context, std::ostream& out) {
  comm::Channel& channel = context.channel;
  const std::vector<int> all = comm::everyone(channel);
  const bool speaks = channel.rank() == 0;
  std::optional<profile::Stored> stored;
  const std::string place = context.device.place().describe();
  if (speaks) stored = profile::find_stored(job, context.threads, profiles_folder(job), place);
  const std::string known = comm::broadcast(
      channel, all, stored ? chain::to_yaml(stored->chain) : "", "stored profile of rank 0");
  if (!known.empty()) {
    if (speaks) say(*stored, "measured earlier", out);
    return chain::read_chain(io::parse(known, "chain"));
  }
  if (speaks) out << "profile: measuring the layers ..." << std::endl;
  int measured = 0;
  profile::MeasureOptions options = measure_options(context);
  const bool is_shared = context.device.measures_beside_others();
  if (is_shared) {
    options.share = channel.rank();
    options.shares = channel.size();
  }
  options.progress = [&](int, const chain::LayerCost&, bool is_measured) {
    measured += is_measured ? 1 : 0;
  };
  std::string mine;
  const auto work = [&] {
    if (is_shared || speaks) mine = chain::to_yaml(profile::measure(model, job, options));
  };
  comm::work_beside_rounds(channel, work, "profiling");
  chain::Chain chain = sum_of(comm::all_gather(channel, all, mine, "profiles of all ranks"));
  if (speaks) {
    const std::string how = concat(measured, " kinds measured on ", is_shared ? channel.size() : 1,
                                   is_shared && channel.size() > 1 ? " ranks" : " rank");
    try {
      say(profile::store(chain, job, context.threads, profiles_folder(job), place), how, out);
    } catch (const Error& error) {
      out << "profile: " << how << ", and will be again: " << error.what() << "\n";
    }
  }
  return chain;
}

}  // namespace trireme::app
