// A pool of worker threads for parallel loops. Idle threads sleep; they need no shutdown and are safe after fork. The
// caller never waits for a thread that has not started: if the system is busy, the caller does the work alone.
#pragma once

#include <cstdint>

namespace mercer {

using Task = void (*)(void* context, int64_t index);

// Calls task(context, 0 .. count-1), each index once, on up to n_threads threads including the caller's.
void parallel_for(int64_t count, int n_threads, Task task, void* context);

}  // namespace mercer

// The thread limit that threadpoolctl sets and reads by these names; 0 means no limit.
extern "C" {
__attribute__((visibility("default"))) int mercer_get_num_threads();
__attribute__((visibility("default"))) void mercer_set_num_threads(int n_threads);
}
