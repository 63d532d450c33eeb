//! Instances are killed, stand still, join and leave: every record comes out once.

use std::process::Command;

use crate::broker;

#[test]
fn under_kills_freezes_joins_and_leaves_every_record_comes_out_exactly_once() {
    let output = Command::new(env!("CARGO_BIN_EXE_chaos"))
        .args(["run", "--bootstrap", broker::address()])
        .args(["--records", "60000", "--kills", "6", "--freezes", "1", "--guests", "1"])
        .output()
        .unwrap();
    let (said, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{said}");
    assert!(output.status.success(), "{said}\n{errors}");
    assert!(said.contains("echo: 60000 records out, 0 lost, 0 doubled"), "{said}");
}
