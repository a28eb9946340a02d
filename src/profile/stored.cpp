// SPDX-License-Identifier: Apache-2.0
#include "trireme/profile/stored.h"

#include "trireme/core/digest.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/device/cuda_library.h"
#include "trireme/io/file.h"
#include "trireme/io/library.h"
#include "trireme/io/node.h"

#include <torch/version.h>

#include <cstdlib>
#include <optional>
#include <utility>

namespace trireme::profile {
namespace {

/// Raise this when the same program text would give other costs (what is measured, how it is
/// written).
constexpr int kFormat = 7;
/// Start of the costs, which follow the comment head.
constexpr std::string_view kBegin = "format: trireme-chain/";
constexpr std::string_view kNoted = "# Noted of its layers:\n",
                           kDigest = "# Digest of what follows: ", kIndent = "#   ";

/// Digest of the file that holds this code, and of what it loads for `device`.
std::string program_digest(const std::string& device);
/// Which kernels a GPU uses, if the job or environment chooses.
std::string kernels_of(const config::JobSpec& job);
std::filesystem::path file_of(const std::string& known, const std::filesystem::path& folder);
/// Throws InputError if the file is not what store() has written for these dependencies and this
/// model.
Stored read_stored(const std::filesystem::path& file, const std::string& dependencies,
                   const model::ChainModel& model);
/// Throws InputError if the chain's layers are not the model's.
void require_of(const model::ChainModel& model, const chain::Chain& chain);
/// The remarks that precede the costs.
std::vector<std::string> notes_in(std::string_view head);
/// The head of the file before the costs: what they depend on, the remarks, and a digest of remarks
/// and costs.
std::string head_of(const std::string& dependencies, const std::vector<std::string>& notes,
                    std::string_view costs);
/// The lines of `text` as YAML comments.
std::string commented(const std::string& text);

}  // namespace

std::string machine(int threads, const device::Place& place) {
  const std::string processor =
      concat(device::cpu().model_name(), ", ", count_of(threads, "thread"));
  return &place == &device::cpu() ? processor : concat(place.model_name(), " on ", processor);
}

std::string dependencies(const config::JobSpec& job, const std::string& code,
                         const std::string& machine, Energy energy) {
  config::JobSpec drawn = job;
  drawn.weights.clear();  // values do not affect costs
  const io::Node resolved = io::parse(config::to_yaml(drawn), "job");
  const config::OptimizerSpec& optimizer = job.train.optimizer;
  const bool has_momentum = optimizer.kind == "sgd" && optimizer.momentum != 0;
  return concat(
      "format: ", kFormat, "\nprogram: ", program_digest(job.device), "\nlibtorch: ", TORCH_VERSION,
      "\nmachine: ", machine, "\nmicro_batch: ", job.train.micro_batch.value(),
      "\nprecision: ", job.train.precision, job.memory.tapes == "lean" ? "\ntapes: lean" : "",
      kernels_of(job), "\noptimizer: ", optimizer.kind, has_momentum ? " with momentum" : "",
      job.train.clip_norm > 0 ? "\nclips: yes" : "",
      energy == Energy::kMeasured ? "\njoules: measured" : "",
      job.data.kind == "documents" ? "\ntargets: masked" : "",
      job.data.isolates_documents() ? "\ndocuments: isolated" : "",
      code.empty() ? "" : "\ncode: " + code, "\nmodel:\n", resolved.find("model")->to_yaml(), "\n");
}

Found find_stored(const std::string& dependencies, const model::ChainModel& model,
                  const std::filesystem::path& folder) {
  const std::filesystem::path file = file_of(dependencies, folder);
  std::error_code none;
  if (!std::filesystem::exists(std::filesystem::symlink_status(file, none))) return {};
  try {
    return {.stored = read_stored(file, dependencies, model), .refused = {}};
  } catch (const InputError& error) {
    return {.stored = std::nullopt,
            .refused = concat(error.what(), ": is not what was measured for this job, which is ",
                              "measured again and replaces it")};
  }
}

Found find_stored(const config::JobSpec& job, const std::string& machine,
                  const model::ChainModel& model, const std::filesystem::path& folder) {
  Found with =
      find_stored(dependencies(job, model.code, machine, Energy::kMeasured), model, folder);
  if (with.stored) return with;
  Found without = find_stored(dependencies(job, model.code, machine), model, folder);
  if (without.refused.empty()) without.refused = std::move(with.refused);
  return without;
}

Stored store(chain::Chain chain, const std::vector<std::string>& notes,
             const std::string& dependencies, const std::filesystem::path& folder) {
  const std::filesystem::path file = file_of(dependencies, folder);
  const std::string costs = chain::to_yaml(chain);
  io::write_own_file(file, head_of(dependencies, notes, costs) + costs);
  return {.chain = std::move(chain), .notes = notes, .file = file};
}

Stored load_or_measure(const model::ChainModel& model, const config::JobSpec& job,
                       const MeasureOptions& options, const std::filesystem::path& folder,
                       Reuse reuse) {
  const std::string here = machine(options.threads, options.place);
  const bool has_meter = options.meter != nullptr;
  const std::string known =
      dependencies(job, model.code, here, has_meter ? Energy::kMeasured : Energy::kNotMeasured);
  Found found;
  if (reuse == Reuse::kAllowed)
    found = has_meter ? find_stored(known, model, folder) : find_stored(job, here, model, folder);
  if (found.stored) {
    for (const std::string& each : found.stored->notes)
      if (options.note) options.note(each);
    return std::move(*found.stored);
  }
  std::vector<std::string> notes;
  MeasureOptions noting = options;
  noting.note = [&](const std::string& text) {
    notes.push_back(text);
    if (options.note) options.note(text);
  };
  chain::Chain measured = measure(model, job, noting);
  Stored fresh{.chain = measured, .notes = notes};
  try {
    fresh = store(std::move(measured), notes, known, folder);
  } catch (const Error& error) {  // keep minutes of measurement even if they cannot be stored
    fresh.problem = error.what();
  }
  fresh.refused = std::move(found.refused);
  return fresh;
}

namespace {

std::string program_digest(const std::string& device) {
  std::string files = io::read_file(io::own_file());
  const std::filesystem::path library = device::cuda_library();
  std::error_code none;
  if (device == "cuda" && std::filesystem::exists(library, none)) files += io::read_file(library);
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

Stored read_stored(const std::filesystem::path& file, const std::string& dependencies,
                   const model::ChainModel& model) {
  const std::string text = io::read_file(file, chain::kMaxChainFile);
  // The head reveals a file of another job under this name, and any changed byte.
  const std::size_t before = text.find(concat("\n", kBegin));
  const std::size_t begin = before == std::string::npos ? before : before + 1;
  const std::string_view costs =
      begin == std::string::npos ? std::string_view() : std::string_view(text).substr(begin);
  const std::vector<std::string> notes =
      notes_in(std::string_view(text).substr(0, text.size() - costs.size()));
  if (head_of(dependencies, notes, costs) + std::string(costs) != text)
    throw InputError(concat(file.string(), ": was changed, or made for something else"));
  Stored stored{.chain = chain::read_chain(io::parse(costs, file.string())),
                .notes = notes,
                .file = file,
                .was_there = true};
  try {
    require_of(model, stored.chain);
  } catch (const InputError& error) {
    throw InputError(concat(file.string(), ": ", error.what()));
  }
  return stored;
}

void require_of(const model::ChainModel& model, const chain::Chain& chain) {
  if (chain.length() != model.length())
    throw InputError(concat("has ", chain.length(), " layers, the model has ", model.length()));
  for (int number = 1; number <= chain.length(); ++number) {
    const std::string& name = model.layers[static_cast<std::size_t>(number - 1)].name;
    if (chain.layer(number).name != name)
      throw InputError(
          concat("layer ", number, " is ", chain.layer(number).name, ", the model's is ", name));
  }
}

std::vector<std::string> notes_in(std::string_view head) {
  std::vector<std::string> notes;
  const std::size_t begin = head.find(kNoted);
  if (begin == std::string_view::npos) return notes;
  for (const std::string& line : split(std::string(head.substr(begin + kNoted.size())), '\n'))
    if (line.starts_with(kIndent)) notes.push_back(line.substr(kIndent.size()));
  return notes;
}

std::string head_of(const std::string& dependencies, const std::vector<std::string>& notes,
                    std::string_view costs) {
  const std::string noted = notes.empty() ? "" : concat(kNoted, commented(join(notes, "\n")));
  return concat("# Measured by trireme profile. These costs hold for:\n", commented(dependencies),
                noted, kDigest, digest(concat(noted, costs)), "\n");
}

std::string commented(const std::string& text) {
  std::string lines;
  for (const std::string& line : split(text, '\n')) {
    if (!line.empty()) lines += concat(kIndent, line, "\n");
  }
  return lines;
}

}  // namespace
}  // namespace trireme::profile
