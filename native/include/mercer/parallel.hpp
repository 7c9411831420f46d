// Threads that live as long as one parallel loop: nothing to shut down, nothing that spins, safe after fork.
#pragma once

#include <cstdint>

namespace mercer {

using Task = void (*)(void* context, int64_t index);

// Calls task(context, 0 .. count-1), each index once, on up to n_threads threads including the caller's.
void parallel_for(int64_t count, int n_threads, Task task, void* context);

}  // namespace mercer
