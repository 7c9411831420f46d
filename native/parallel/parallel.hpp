// Threads that help with one parallel loop after the other, and sleep where none follows at once: nothing to shut down,
// safe after fork. Nobody waits for one that the system has not let begin: beside busy processes the caller does the
// work alone.
#pragma once

#include <cstdint>
#include <memory>

namespace mercer {

using Task = void (*)(void* context, int64_t index);

// Calls task(context, 0 .. count-1), each index once, on up to n_threads threads including the caller's.
void parallel_for(int64_t count, int n_threads, Task task, void* context);

// Calls task(context, 0) on a helper, if one comes before this goes, which waits for it to return.
class Aside {
  public:
    Aside(Task task, void* context);
    ~Aside();
    Aside(const Aside&) = delete;
    Aside& operator=(const Aside&) = delete;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace mercer

// The limit that threadpoolctl sets and reads, by these names; 0 where nobody has set one.
extern "C" {
__attribute__((visibility("default"))) int mercer_get_num_threads();
__attribute__((visibility("default"))) void mercer_set_num_threads(int n_threads);
}
