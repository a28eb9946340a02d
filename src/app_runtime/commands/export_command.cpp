// SPDX-License-Identifier: Apache-2.0
#include "commands/export_command.h"

#include "folder/saved_run.h"

#include "trireme/comm/host.h"
#include "trireme/config/adapters.h"
#include "trireme/config/huggingface.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/core/visible.h"
#include "trireme/io/file.h"
#include "trireme/io/folder.h"
#include "trireme/io/pieces.h"
#include "trireme/ranks/launch.h"
#include "trireme/ranks/signals.h"
#include "trireme/runtime/weights.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <map>
#include <string_view>
#include <variant>

namespace trireme::app {
namespace {

namespace fs = std::filesystem;

constexpr const char *kWeights = "model.safetensors", *kEnding = ".safetensors",
                     *kConfig = config::kHuggingFaceFile;
constexpr std::string_view kDraft = ".draft";

at::ScalarType type_called(const std::string& name) {
  static const std::map<std::string, at::ScalarType> types{
      {"float32", at::kFloat}, {"bfloat16", at::kBFloat16}, {"float16", at::kHalf}};
  return types.at(name);
}

/// Writes config.json, and the token files of the initial weights. Returns the files' names.
std::vector<std::string> write_descriptions(const config::JobSpec& job, const fs::path& folder) {
  const fs::path origin = job.weights;
  std::error_code none;
  const auto is_there = [&](const char* file) {
    return !job.weights.empty() && fs::exists(origin / file, none);
  };
  std::optional<io::Node> began_with;
  if (is_there(kConfig)) began_with = io::load(origin / kConfig);
  const auto config = config::to_huggingface(job.model, began_with);
  if (!config) return {};
  io::write_file(folder / kConfig, *config);
  std::vector<std::string> written{kConfig};
  for (const char* file : config::kTokenizerFiles) {
    if (!is_there(file)) continue;
    io::write_file(folder / file, io::read_file(origin / file));
    written.emplace_back(file);
  }
  return written;
}

void require_adapters(const SavedRun& run) {
  if (!config::adapters_of(run.job.model))
    throw InputError(concat("--adapters: the model of ", run.checkpoint.string(),
                            " has none (model.lora_rank): export it as a whole"));
  if (run.job.weights.empty())
    throw InputError(concat(
        "--adapters: the base weights of these adapters are only in ", run.checkpoint.string(),
        ", because the run did not begin with any (model.weights): export the whole"));
}

/// Whether token files may be missing because the initial weights were not found.
bool lacks_origin(const SavedRun& run, const ExportArguments& arguments) {
  std::error_code none;
  return !arguments.adapters && fs::is_directory(arguments.output, none) &&
         !run.job.weights.empty() && !fs::exists(run.job.weights, none);
}

void require_free(const fs::path& output) {
  std::error_code none;
  if (fs::exists(io::plain_name(output, "-o"), none))
    throw InputError(concat(output.string(), ": exists already: name a new one with -o"));
}

/// Writes the weights. Returns the file's name.
std::string write_values(const SavedRun& run, const ExportArguments& arguments,
                         const fs::path& folder, Bytes& size) {
  const at::ScalarType type = type_called(arguments.type);
  const std::string name = arguments.adapters ? config::kAdaptersValues : kWeights;
  size = arguments.adapters ? runtime::export_adapters(run.checkpoint, run.job.model, type,
                                                       folder / name, ranks::stop_requested)
                            : runtime::export_weights(run.checkpoint, run.job.model, type,
                                                      folder / name, ranks::stop_requested);
  return name;
}

/// Removes what exports to the same place left whose processes, on this machine, are gone.
void remove_drafts(const fs::path& folder, const std::string& prefix) {
  std::vector<fs::path> drafts;
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(prefix) || !name.ends_with(kDraft)) continue;
    pid_t process = 0;
    const char* const last = name.data() + name.size() - kDraft.size();
    const auto read = std::from_chars(name.data() + prefix.size(), last, process);
    if (read.ec == std::errc() && read.ptr == last && process > 0 && ::kill(process, 0) != 0 &&
        errno == ESRCH)
      drafts.push_back(entry->path());
  }
  for (const fs::path& draft : drafts) fs::remove_all(draft, failure);
}

/// Writes one file, or a folder; returns what is in it.
std::vector<std::string> write(const SavedRun& run, const ExportArguments& arguments, Bytes& size) {
  const fs::path output = io::plain_name(arguments.output, "-o");
  // Hidden and of this process alone: nothing of the user's has that name.
  const std::string prefix = concat(".", output.filename().string(), ".", comm::host_name(), ".");
  remove_drafts(output.parent_path(), prefix);
  const fs::path draft = output.parent_path() / concat(prefix, ::getpid(), kDraft);
  std::error_code failure;
  fs::remove_all(draft, failure);
  fs::create_directories(draft, failure);
  if (failure)
    throw Error(concat(arguments.output, ": cannot be made: ", failure.message(),
                       ": name a place with -o that can be written"));
  try {
    std::vector<std::string> files{write_values(run, arguments, draft, size)};
    if (output.extension() == kEnding) {
      fs::rename(draft / files.front(), output, failure);
      if (failure)
        throw Error(concat(arguments.output, ": cannot be made: ", failure.message(),
                           ": name a place with -o that can be written"));
      fs::remove_all(draft, failure);
      return files;
    }
    if (arguments.adapters) {
      io::write_file(draft / config::kAdaptersFile,
                     config::adapters_config(run.job.model, run.job.weights));
      files.emplace_back(config::kAdaptersFile);
    } else {
      for (const std::string& file : write_descriptions(run.job, draft)) files.push_back(file);
    }
    io::publish_folder(draft, output);
    return files;
  } catch (...) {
    std::error_code none;
    fs::remove_all(draft, none);
    throw;
  }
}

}  // namespace

int export_run(const ExportArguments& arguments, const model::ModelRegistry& own) {
  const ranks::WatchedSignals signals;
  try {
    require_free(arguments.output);
    const SavedRun run = find_saved_run(arguments.run, arguments.step, own);
    if (arguments.adapters) require_adapters(run);
    Bytes size;
    const std::vector<std::string> files = write(run, arguments, size);
    std::cout << "exported " << visible(run.checkpoint.string()) << " to "
              << visible(arguments.output) << ": " << to_text(size) << " of " << arguments.type;
    std::error_code none;
    if (fs::is_directory(arguments.output, none)) std::cout << " (" << join(files, ", ") << ")";
    std::cout << "\n";
    const bool is_llama = std::holds_alternative<config::LlamaSpec>(run.job.model);
    if (is_llama && !arguments.adapters && !config::to_huggingface(run.job.model))
      std::cout << "note: without a " << kConfig
                << ", for no family of transformers has all parts of this model together\n";
    if (lacks_origin(run, arguments))
      std::cout << "note: without a tokenizer, for the weights that the run began with, "
                << visible(run.job.weights)
                << ", are not here: copy it from there if they had one\n";
    return 0;
  } catch (...) {
    return ranks::exit_code_of_current_exception(true, "");
  }
}

}  // namespace trireme::app
