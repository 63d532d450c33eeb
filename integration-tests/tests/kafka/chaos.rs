//! Instances are killed, stand still, join and leave: every record comes out once.

use std::process::Command;

use crate::broker;

#[test]
fn under_20_kills_3_freezes_and_3_joins_and_leaves_every_record_comes_out_exactly_once() {
    let output = Command::new(env!("CARGO_BIN_EXE_chaos"))
        .args(["run", "--bootstrap", broker::address()])
        .args(["--records", "200000", "--kills", "20", "--freezes", "3", "--guests", "3"])
        .output()
        .unwrap();
    let (said, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{said}");
    assert!(output.status.success(), "{said}\n{errors}");
    for topic in ["echo", "totals"] {
        let exact = format!("{topic}: 200000 records out, 0 lost, 0 doubled");
        assert!(said.contains(&exact), "{said}");
    }
}
