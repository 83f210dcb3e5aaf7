//! Prints a line of JSON for each mutant named: `[number, [null or [files, stopped, detail], ...]]`.
//!
//! Arguments: the folder of a set of known answers, the folder that paths of blobs start from, numbers of mutants.

mod levels;

use std::path::Path;

fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let set = match levels::Set::read(Path::new(&arguments[0]), Path::new(&arguments[1])) {
        Ok(set) => set,
        Err(why) => {
            eprintln!("{why}");
            std::process::exit(2);
        }
    };
    for argument in &arguments[2..] {
        let number = argument.parse().expect("the number of a mutant");
        int_reference::select_mutant(number);
        let notices = set.notices();
        let one = |n: &levels::Notice| serde_json::json!([n.files, n.stopped, n.detail]);
        let all: Vec<_> = notices.iter().map(|n| n.as_ref().map(one)).collect();
        println!("{}", serde_json::json!([number, all]));
    }
}
