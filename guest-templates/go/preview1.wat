;; WASI preview 1 for Go's runtime, without files, entropy and environment.
;;
;; `wasm-tools component new --adapt` links it to the module, so that the component imports no WASI. wasmtime's adapter
;; does not work: it allocates memory before Go's runtime has started, and memory.grow returns pages that Go's
;; allocator considers its own. It would also call the host while Go collects
;; garbage inside cabi_realloc, which the component model forbids.
;;
;; The clock moves one millisecond each time it is read, so that a sleeping goroutine wakes up. Random bytes are a fixed
;; sequence. Tools use the imports of their world instead. Standard output is dropped. Standard error is logged line by
;; line, since Go writes the reason of a fatal error to it. The buffer belongs to wasmrt.go, because all memory here is
;; Go's. The lines after an empty one, which are stacks, are logged for debugging only.
;; Source: WASI preview 1, witx/wasi_snapshot_preview1.witx: names, signatures, errno badf = 8.
(module
  (import "env" "memory" (memory 0))
  (import "wasmrt:tool/log@0.1.0" "log" (func $log (param i32 i32 i32)))
  (global $room (mut i32) (i32.const 0))
  (global $size (mut i32) (i32.const 0))
  (global $used (mut i32) (i32.const 0))
  (global $level (mut i32) (i32.const 3)) ;; warn
  (global $clock (mut i64) (i64.const 0))
  (global $seed (mut i64) (i64.const 42))

  (func $none (param i32 i32) (result i32)
    (i32.store (local.get 0) (i32.const 0))
    (i32.store (local.get 1) (i32.const 0))
    (i32.const 0))
  (export "args_sizes_get" (func $none))
  (export "environ_sizes_get" (func $none))

  (func $empty (param i32 i32) (result i32) (i32.const 0))
  (export "args_get" (func $empty))
  (export "environ_get" (func $empty))

  (func (export "sched_yield") (result i32) (i32.const 0))
  (func (export "proc_exit") (param i32) (unreachable))
  (func (export "proc_raise") (param i32) (result i32) (unreachable))

  (func (export "clock_res_get") (param i32 i32) (result i32)
    (i64.store (local.get 1) (i64.const 1000000))
    (i32.const 0))
  (func (export "clock_time_get") (param i32 i64 i32) (result i32)
    (global.set $clock (i64.add (global.get $clock) (i64.const 1000000)))
    (i64.store (local.get 2) (global.get $clock))
    (i32.const 0))
  ;; No event is ever ready: the runtime reads the clock again.
  (func (export "poll_oneoff") (param i32 i32 i32 i32) (result i32)
    (i32.store (local.get 3) (i32.const 0))
    (i32.const 0))

  ;; Knuth's MMIX generator: the high bits of each state.
  (func (export "random_get") (param $at i32) (param $left i32) (result i32)
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $left)))
        (global.set $seed
          (i64.add (i64.mul (global.get $seed) (i64.const 6364136223846793005)) (i64.const 1442695040888963407)))
        (i32.store8 (local.get $at) (i32.wrap_i64 (i64.shr_u (global.get $seed) (i64.const 33))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br $next)))
    (i32.const 0))

  ;; Lends room for one line.
  (func (export "wasmrt_line") (param $room i32) (param $size i32)
    (global.set $room (local.get $room))
    (global.set $size (local.get $size)))

  ;; Adds to the line, and logs it at its end; what is too long for the room is dropped.
  (func $say (param $at i32) (param $left i32)
    (local $byte i32)
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $left)))
        (local.set $byte (i32.load8_u (local.get $at)))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (if (i32.eq (local.get $byte) (i32.const 9)) (then (local.set $byte (i32.const 32))))
        (if (i32.eq (local.get $byte) (i32.const 10))
          (then
            (if (i32.eqz (global.get $used)) (then (global.set $level (i32.const 1)))) ;; debug
            (call $log (global.get $level) (global.get $room) (global.get $used))
            (global.set $used (i32.const 0)))
          (else
            (if (i32.lt_u (global.get $used) (global.get $size))
              (then
                (i32.store8 (i32.add (global.get $room) (global.get $used)) (local.get $byte))
                (global.set $used (i32.add (global.get $used) (i32.const 1)))))))
        (br $next))))

  ;; Counts all that is written as written: the sum of the lengths of the iovecs.
  (func $write (param $fd i32) (param $iovec i32) (param $left i32) (param $written i32) (result i32)
    (local $sum i32)
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $left)))
        (if (i32.and (i32.eq (local.get $fd) (i32.const 2)) (i32.ne (global.get $room) (i32.const 0)))
          (then (call $say (i32.load (local.get $iovec)) (i32.load offset=4 (local.get $iovec)))))
        (local.set $sum (i32.add (local.get $sum) (i32.load offset=4 (local.get $iovec))))
        (local.set $iovec (i32.add (local.get $iovec) (i32.const 8)))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br $next)))
    (i32.store (local.get $written) (local.get $sum))
    (i32.const 0))
  (export "fd_write" (func $write))

  ;; Everything else answers "bad descriptor", one function a signature.
  (func $bad1 (param i32) (result i32) (i32.const 8))
  (export "fd_close" (func $bad1))
  (export "fd_datasync" (func $bad1))
  (export "fd_sync" (func $bad1))
  (func $bad2 (param i32 i32) (result i32) (i32.const 8))
  (export "fd_fdstat_get" (func $bad2))
  (export "fd_fdstat_set_flags" (func $bad2))
  (export "fd_filestat_get" (func $bad2))
  (export "fd_prestat_get" (func $bad2))
  (export "fd_renumber" (func $bad2))
  (export "fd_tell" (func $bad2))
  (export "sock_shutdown" (func $bad2))
  (func $bad3 (param i32 i32 i32) (result i32) (i32.const 8))
  (export "fd_prestat_dir_name" (func $bad3))
  (export "path_create_directory" (func $bad3))
  (export "path_remove_directory" (func $bad3))
  (export "path_unlink_file" (func $bad3))
  (export "sock_accept" (func $bad3))
  (func $bad4 (param i32 i32 i32 i32) (result i32) (i32.const 8))
  (export "fd_read" (func $bad4))
  (func $bad5 (param i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (export "path_filestat_get" (func $bad5))
  (export "path_symlink" (func $bad5))
  (export "sock_send" (func $bad5))
  (func $bad6 (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (export "path_readlink" (func $bad6))
  (export "path_rename" (func $bad6))
  (export "sock_recv" (func $bad6))
  (func $bad7 (param i32 i32 i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (export "path_link" (func $bad7))
  (func (export "fd_advise") (param i32 i64 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_allocate") (param i32 i64 i64) (result i32) (i32.const 8))
  (func (export "fd_fdstat_set_rights") (param i32 i64 i64) (result i32) (i32.const 8))
  (func (export "fd_filestat_set_size") (param i32 i64) (result i32) (i32.const 8))
  (func (export "fd_filestat_set_times") (param i32 i64 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_pread") (param i32 i32 i32 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_pwrite") (param i32 i32 i32 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_readdir") (param i32 i32 i32 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_seek") (param i32 i64 i32 i32) (result i32) (i32.const 8))
  (func (export "path_filestat_set_times") (param i32 i32 i32 i32 i64 i64 i32) (result i32) (i32.const 8))
  (func (export "path_open") (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32) (i32.const 8)))
