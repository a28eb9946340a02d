// SPDX-License-Identifier: Apache-2.0
#include "trireme/profile/stored.h"

#include "trireme/core/digest.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/device/cuda_library.h"
#include "trireme/io/file.h"
#include "trireme/io/node.h"

#include <torch/version.h>

#include <cstdlib>
#include <optional>
#include <utility>

namespace trireme::profile {
namespace {

/// To be raised when the same program text would give other costs (what is measured, how it is
/// written).
constexpr int kFormat = 4;

/// Digest of the running program's file, and of what it loads for `device`.
std::string program_digest(const std::string& device);
/// Which kernels a GPU takes, where a choice has been made.
std::string kernels_of(const config::JobSpec& job);
std::filesystem::path file_of(const std::string& known, const std::filesystem::path& folder);
std::optional<chain::Chain> read_stored(const std::filesystem::path& file);
/// The lines of `text` as YAML comments.
std::string commented(const std::string& text);

}  // namespace

std::string machine(int threads, const device::Place& place) {
  const std::string processor =
      concat(device::cpu().model_name(), ", ", threads, threads == 1 ? " thread" : " threads");
  return &place == &device::cpu() ? processor : concat(place.model_name(), " on ", processor);
}

std::string dependencies(const config::JobSpec& job, const std::string& machine) {
  config::JobSpec drawn = job;
  drawn.weights.clear();  // values do not change what they cost
  const io::Node resolved = io::parse(config::to_yaml(drawn), "job");
  const config::OptimizerSpec& optimizer = job.train.optimizer;
  const bool has_momentum = optimizer.kind == "sgd" && optimizer.momentum != 0;
  const std::string files = model::files_digest(job.model);
  return concat(
      "format: ", kFormat, "\nprogram: ", program_digest(job.device), "\nlibtorch: ", TORCH_VERSION,
      "\nmachine: ", machine, "\nmicro_batch: ", job.train.micro_batch.value(),
      "\nprecision: ", job.train.precision, job.memory.tapes == "lean" ? "\ntapes: lean" : "",
      kernels_of(job), "\noptimizer: ", optimizer.kind, has_momentum ? " with momentum" : "",
      job.train.clip_norm > 0 ? "\nclips: yes" : "",
      job.data.kind == "documents" ? "\ntargets: masked" : "",
      files.empty() ? "" : "\nfiles: " + files, "\nmodel:\n", resolved.find("model")->to_yaml(),
      "\n");
}

std::optional<Stored> find_stored(const std::string& dependencies,
                                  const std::filesystem::path& folder) {
  const std::filesystem::path file = file_of(dependencies, folder);
  auto chain = read_stored(file);
  if (!chain) return std::nullopt;
  return Stored{.chain = std::move(*chain), .file = file, .was_there = true, .problem = {}};
}

Stored store(chain::Chain chain, const std::string& dependencies,
             const std::filesystem::path& folder) {
  const std::filesystem::path file = file_of(dependencies, folder);
  io::write_file(file, concat("# Measured by trireme profile. These costs hold for:\n",
                              commented(dependencies), chain::to_yaml(chain)));
  return {.chain = std::move(chain), .file = file, .was_there = false, .problem = {}};
}

Stored load_or_measure(const model::ChainModel& model, const config::JobSpec& job,
                       const MeasureOptions& options, const std::filesystem::path& folder,
                       Reuse reuse) {
  const std::string known = dependencies(job, machine(options.threads, options.place));
  if (reuse == Reuse::kAllowed) {
    if (auto stored = find_stored(known, folder)) return std::move(*stored);
  }
  chain::Chain measured = measure(model, job, options);
  try {
    return store(measured, known, folder);
  } catch (const Error& error) {  // what took minutes is not lost with a place for it
    return {.chain = std::move(measured), .file = {}, .was_there = false, .problem = error.what()};
  }
}

namespace {

std::string program_digest(const std::string& device) {
  std::string files = io::read_file("/proc/self/exe");
  const std::filesystem::path library = device::cuda_library();
  if (device == "cuda" && std::filesystem::exists(library)) files += io::read_file(library);
  return digest(files);
}

std::string kernels_of(const config::JobSpec& job) {
  if (job.device != "cuda") return {};
  const char* const own = std::getenv("TRIREME_OWN_KERNELS");  // NOLINT(concurrency-mt-unsafe)
  return concat(job.train.deterministic ? "\nkernels: deterministic" : "",
                own == nullptr ? "" : concat("\nTRIREME_OWN_KERNELS: ", own));
}

std::filesystem::path file_of(const std::string& known, const std::filesystem::path& folder) {
  return folder / concat(digest(known), ".yaml");
}

std::optional<chain::Chain> read_stored(const std::filesystem::path& file) {
  std::error_code none;
  if (!std::filesystem::exists(file, none)) return std::nullopt;
  try {
    return chain::load_chain(file);
  } catch (const InputError&) {
    return std::nullopt;  // damaged: measured again and replaced
  }
}

std::string commented(const std::string& text) {
  std::string lines;
  for (const std::string& line : split(text, '\n')) {
    if (!line.empty()) lines += "#   " + line + "\n";
  }
  return lines;
}

}  // namespace
}  // namespace trireme::profile
