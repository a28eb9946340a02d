// SPDX-License-Identifier: Apache-2.0
#include "commands/pack_command.h"

#include "trireme/data/pack_images.h"
#include "trireme/ranks/launch.h"
#include "trireme/ranks/signals.h"

#include <iostream>

namespace trireme::app {

int pack(const PackArguments& arguments) {
  const ranks::WatchedSignals signals;
  try {
    const data::PackedCounts counts =
        data::pack_images(arguments.files, arguments.channels, arguments.side, arguments.output,
                          ranks::stop_requested);
    std::cout << counts.images << " images of " << counts.classes << " classes in "
              << arguments.output << "\n";
    return 0;
  } catch (...) {
    return ranks::exit_code_of_current_exception(true, "");
  }
}

}  // namespace trireme::app
