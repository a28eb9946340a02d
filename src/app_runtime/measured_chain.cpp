// SPDX-License-Identifier: Apache-2.0
#include "measured_chain.h"

#include "signals.h"

#include "trireme/core/text.h"
#include "trireme/profile/stored.h"

namespace trireme::app {
namespace {

/// Layer by layer, so that no wait lasts longer than one layer's measurement.
constexpr const char* kWaiting = "profile on rank 0";

}  // namespace

std::filesystem::path profiles_folder(const config::JobSpec& job) {
  std::filesystem::path report = std::filesystem::absolute(job.report.directory).lexically_normal();
  if (report.filename().empty()) report = report.parent_path();  // "runs/quickstart/"
  return report.parent_path() / ".profiles";
}

chain::Chain measured_chain(const config::JobSpec& job, const model::ChainModel& model,
                            const RankContext& context, std::ostream& out) {
  const std::vector<int> all = comm::everyone(context.channel);
  if (context.channel.rank() != 0) {
    for (;;) {
      const std::string text = comm::broadcast(context.channel, all, "", kWaiting);
      if (!text.empty()) return chain::read_chain(io::parse(text, "chain"));
    }
  }
  profile::MeasureOptions options{.threads = context.threads, .stop_requested = stop_requested};
  int measured = 0;
  options.progress = [&](int, const chain::LayerCost&, bool is_measured) {
    if (is_measured && measured++ == 0) out << "profile: measuring the layers ..." << std::endl;
    comm::broadcast(context.channel, all, "", kWaiting);
  };
  profile::Stored stored =
      profile::load_or_measure(model, job, options, profiles_folder(job), profile::Reuse::kAllowed);
  comm::broadcast(context.channel, all, chain::to_yaml(stored.chain), kWaiting);
  out << "profile: " << stored.chain.length() << " layers, "
      << (stored.was_there ? "measured earlier" : concat(measured, " measured")) << " ("
      << stored.file.string() << ")\n";
  return std::move(stored.chain);
}

}  // namespace trireme::app
