// A second thread that makes the same short steps as its caller. Each thread has a share of the work and needs the
// result of the other at once, so both exchange messages and wait for them without sleeping.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "parallel/parallel.hpp"

namespace mercer {

class HelperThread {
  public:
    static constexpr std::size_t kMessageBytes = 56;  // bytes of a message; with its number it fills a cache line
    using Work = void (*)(void* context);

    // The helper may start late or never. For some time after a slow helper no helper is started. The first message
    // (`first_message`) has the current state of the steps.
    HelperThread(bool is_wanted, Work work, void* context);
    ~HelperThread();
    HelperThread(const HelperThread&) = delete;
    HelperThread& operator=(const HelperThread&) = delete;

    // The caller's side. `joins` is called before each step, from n_steps = 0 on. It returns true once, when the helper
    // has started and needs its first message (`send_start`). If a trial with the helper takes longer than the steps
    // before it, the helper leaves with the next message.
    bool joins(int64_t n_steps);
    void send_start(const void* message, std::size_t size);
    // Sends a message and returns the helper's message. A helper that the caller waits for too long leaves with the
    // next message; its answer to that message is its last.
    const void* exchange(const void* message, std::size_t size);
    bool is_here() const;

    // The helper's side: its first message, and an exchange of messages. Null means that the helper must end.
    const void* first_message();
    const void* exchange_back(const void* message, std::size_t size);

  private:
    // A cache line that one thread writes and the other thread reads.
    struct alignas(64) Line {
        std::atomic<uint64_t> number{0};
        unsigned char content[kMessageBytes];
    };

    static void serve(void* context, int64_t);
    static void write(Line* lines, uint64_t number, uint64_t mark, const void* message, std::size_t size);
    const void* receive();
    void dismiss();

    const Work work_;
    void* const context_;
    uint64_t n_sent_ = 0, n_received_ = 0;  // messages that the caller has sent, and that the helper has received
    bool leaves_ = false;                   // whether the helper leaves with the next message
    int64_t n_alone_ = 0;                   // steps that the caller made before the helper joined
    std::chrono::steady_clock::time_point began_, joined_;
    // Each side writes two lines in turns. A thread overwrites a line only after the answer to it has arrived.
    Line sent_[2], answered_[2];
    alignas(64) std::atomic<bool> is_here_{false};
    std::optional<Aside> aside_;
};

}  // namespace mercer
