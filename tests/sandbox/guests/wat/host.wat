;; Logs its params, reads shared/data.json of the workspace and answers with its text: the smallest guest with host imports
;; that take and give strings.
(module
  (import "near:agent/host@0.3.0" "log" (func $log (param i32 i32 i32)))
  (import "near:agent/host@0.3.0" "now-millis" (func $now (result i64)))
  (import "near:agent/host@0.3.0" "workspace-read" (func $read (param i32 i32 i32)))
  (memory (export "memory") 1)
  (global $free (mut i32) (i32.const 4096))
  (data (i32.const 64) "{\"type\": \"object\"}")
  (data (i32.const 128) "Reads shared/data.json.")
  (data (i32.const 192) "shared/data.json")
  (data (i32.const 224) "no shared/data.json")

  (func (export "cabi_realloc") (param $old i32) (param $old-size i32) (param $align i32) (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
    (global.set $free (i32.add (local.get $at) (local.get $size)))
    (if (i32.gt_u (global.get $free) (i32.const 65536)) (then unreachable))
    (local.get $at))

  (func (export "near:agent/tool@0.3.0#execute")
    (param $params i32) (param $size i32) (param i32 i32 i32) (result i32)
    (call $log (i32.const 2) (local.get $params) (local.get $size))
    (if (i64.eqz (call $now)) (then unreachable))
    (call $read (i32.const 192) (i32.const 16) (i32.const 1064))
    (if (i32.load8_u (i32.const 1064))
      (then
        (i32.store8 (i32.const 1024) (i32.const 1))
        (i64.store align=4 (i32.const 1028) (i64.load align=4 (i32.const 1068))))
      (else
        (i32.store8 (i32.const 1036) (i32.const 1))
        (i32.store (i32.const 1040) (i32.const 224))
        (i32.store (i32.const 1044) (i32.const 19))))
    (i32.const 1024))

  (func (export "near:agent/tool@0.3.0#schema") (result i32)
    (i32.store (i32.const 1048) (i32.const 64))
    (i32.store (i32.const 1052) (i32.const 18))
    (i32.const 1048))

  (func (export "near:agent/tool@0.3.0#description") (result i32)
    (i32.store (i32.const 1048) (i32.const 128))
    (i32.store (i32.const 1052) (i32.const 23))
    (i32.const 1048)))
